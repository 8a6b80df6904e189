/* Event sets: an XID reaches a set that was registered before it happened. */
#define _GNU_SOURCE
#include "sim.h"
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

typedef struct handle *device_t;
struct set { long last; int watch; unsigned gpus; };
struct event { device_t device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
#define XID 8ULL

static int watch_state(void) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", sim_path());
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd >= 0) inotify_add_watch(fd, folder, IN_MOVED_TO | IN_CLOSE_WRITE);
    return fd;
}
int nvmlEventSetCreate(struct set **out) {
    SYSTEM();
    struct state *s = sim_state();
    *out = calloc(1, sizeof **out);
    (*out)->last = s->xid_count ? s->xids[s->xid_count - 1].sequence : 0;
    (*out)->watch = watch_state();
    return OK;
}
int nvmlEventSetFree(struct set *set) {
    SYSTEM();
    if (set->watch >= 0) close(set->watch);
    free(set);
    return OK;
}
int nvmlDeviceGetSupportedEventTypes(device_t h, unsigned long long *out) {
    DEVICE(h);
    (void)g;
    *out = XID | 1 | 2;
    return OK;
}
int nvmlDeviceRegisterEvents(device_t h, unsigned long long types, struct set *set) {
    DEVICE(h);
    (void)g;
    if (types & XID) set->gpus |= 1u << h->gpu;
    return OK;
}
static int next_event(struct set *set, struct event *out) {
    struct state *s = sim_state();
    for (int i = 0; i < s->xid_count; i++) {
        struct xid *x = &s->xids[i];
        if (x->sequence <= set->last) continue;
        set->last = x->sequence;
        if (!(set->gpus & 1u << x->gpu)) continue;
        *out = (struct event){ sim_handle(x->gpu, -1), XID, x->code, x->instance, x->instance };
        return 1;
    }
    return 0;
}
int nvmlEventSetWait_v2(struct set *set, struct event *out, unsigned timeout_ms) {
    SYSTEM();
    double until = sim_now() + timeout_ms / 1000.0;
    for (;;) {
        if (next_event(set, out)) return OK;
        double left = until - sim_now();
        if (left <= 0) return TIMEOUT;
        struct pollfd fd = { set->watch, POLLIN, 0 };
        char drop[4096];
        poll(&fd, 1, (int)(left * 1000) + 1);
        while (read(set->watch, drop, sizeof drop) > 0) { }
        struct timespec settle = { 0, 3000000 };
        if (sim_now() < until) nanosleep(&settle, NULL);
    }
}
