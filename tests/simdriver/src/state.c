/* The state file: one fact a line, read again when it was replaced. Python writes it (state.py). */
#define _GNU_SOURCE
#include "sim.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static struct state buffers[2], *current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define AS_NAME(name, value) #name,
#define AS_VALUE(name, value) value,
static const char *NAMES[] = { ATTRIBUTES(AS_NAME) };
static const long long DEFAULTS[] = { ATTRIBUTES(AS_VALUE) };
static const char *BUSES[] = { "1B", "3B", "43", "52", "9D", "C3", "D1", "DF",
                               "E1", "E3", "E5", "E7", "E9", "EB", "ED", "EF" };

const char *sim_path(void) {
    const char *path = getenv("SIMDRIVER_STATE");
    return path ? path : "/nonexistent";
}

double sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static long long number(const char *text) {
    return strcmp(text, "NA") ? strtoll(text, NULL, 0) : NA;
}

static void copy(char *out, const char *text, size_t size) {
    size_t length = strnlen(text, size - 1);
    memcpy(out, text, length);
    out[length] = 0;
}

static void defaults(struct state *s) {
    memset(s, 0, sizeof *s);
    strcpy(s->driver, "570.124.06");
    strcpy(s->nvml, "12.570.124.06");
    s->cuda = 12080;
    s->gpu_count = 8;
    for (int i = 0; i < MAX_GPUS; i++) {
        struct gpu *g = &s->gpus[i];
        sprintf(g->uuid, "GPU-5e7a1f00-0000-4000-8000-%012d", i);
        strcpy(g->name, "NVIDIA H100 80GB HBM3");
        sprintf(g->bus_id, "00000000:%s:00.0", BUSES[i]);
        memcpy(g->attribute, DEFAULTS, sizeof DEFAULTS);
        for (int l = 0; l < MAX_LINKS; l++) g->links[l].state = 1;
    }
}

static void set(struct gpu *g, const char *key, const char *value) {
    if (!strcmp(key, "uuid")) copy(g->uuid, value, sizeof g->uuid);
    else if (!strcmp(key, "name")) copy(g->name, value, sizeof g->name);
    else if (!strcmp(key, "bus_id")) copy(g->bus_id, value, sizeof g->bus_id);
    else for (int a = 0; a < ATTRIBUTE_COUNT; a++)
        if (!strcmp(key, NAMES[a])) g->attribute[a] = number(value);
}

static void gpu_line(struct state *s, int from, int to, const char *what, char *rest) {
    char a[128] = "", b[128] = "", c[128] = "", d[128] = "", e[128] = "";
    sscanf(rest, "%127s %127s %127s %127s %127s", a, b, c, d, e);
    for (int i = from; i <= to && i < MAX_GPUS; i++) {
        struct gpu *g = &s->gpus[i];
        if (!strcmp(what, "process") && g->process_count < MAX_PROCS)
            g->processes[g->process_count++] = (struct process){ atoi(a), number(b), number(c) };
        else if (!strcmp(what, "link") && atoi(a) < MAX_LINKS)
            g->links[atoi(a)] = (struct link){ number(b), number(c), number(d), number(e) };
        else if (!strcmp(what, "field") && g->field_count < MAX_FIELDS)
            g->fields[g->field_count++] = (struct field){ atoi(a), number(b), number(c), atoi(d) };
        else if (!strcmp(what, "mig") && g->mig_count < MAX_MIGS) {
            struct mig *m = &g->migs[g->mig_count++];
            sscanf(rest, "%u %u %lld %lld %95s %95[^\n]", &m->gpu_instance, &m->compute_instance,
                   &m->total, &m->used, m->uuid, m->name);
        } else set(g, what, rest);
    }
}

static void parse(struct state *s, FILE *file) {
    char line[512], word[64], rest[256];
    while (fgets(line, sizeof line, file)) {
        int gpu;
        struct fault f = { .gpu = -1 };
        struct xid x;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "gpu %d %63s %255[^\n]", &gpu, word, rest) == 3)
            gpu_line(s, gpu < 0 ? 0 : gpu, gpu < 0 ? MAX_GPUS - 1 : gpu, word, rest);
        else if (sscanf(line, "fault %63s %d %d %lf", f.function, &f.gpu, &f.code, &f.delay) == 4
                 && s->fault_count < MAX_FAULTS) s->faults[s->fault_count++] = f;
        else if (sscanf(line, "xid %ld %d %llu %u", &x.sequence, &x.gpu, &x.code, &x.instance) == 4
                 && s->xid_count < MAX_XIDS) s->xids[s->xid_count++] = x;
        else {
            sscanf(line, "driver %79s", s->driver);
            sscanf(line, "nvml %79s", s->nvml);
            sscanf(line, "cuda %d", &s->cuda);
            sscanf(line, "live %d", &s->live);
            sscanf(line, "count %d", &s->gpu_count);
        }
    }
}

struct state *sim_state(void) {
    static struct timespec changed;
    static ino_t inode;
    static double checked = -1;
    double now = sim_now();
    if (current && now - checked < 0.002) return current;
    pthread_mutex_lock(&lock);
    struct stat st = { 0 };
    int found = stat(sim_path(), &st) == 0;
    if (!current || (found && (st.st_ino != inode || st.st_mtim.tv_sec != changed.tv_sec
                               || st.st_mtim.tv_nsec != changed.tv_nsec))) {
        struct state *next = current == &buffers[0] ? &buffers[1] : &buffers[0];
        FILE *file = found ? fopen(sim_path(), "r") : NULL;
        defaults(next);
        if (file) { parse(next, file); fclose(file); }
        inode = st.st_ino;
        changed = st.st_mtim;
        current = next;
    }
    checked = now;
    pthread_mutex_unlock(&lock);
    return current;
}
