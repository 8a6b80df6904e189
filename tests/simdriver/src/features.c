/* What only some GPUs have: MIG, GPM, NVLink, the fabric, ECC detail; and the processes. */
#include "sim.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct handle *device_t;
struct process_info { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
struct process_sample { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };
struct fabric { uint8_t cluster[16]; unsigned status; uint32_t clique; uint8_t state; };
struct fabric_v { unsigned version; uint8_t cluster[16]; unsigned status; uint32_t clique;
                  uint8_t state; uint32_t health; };
struct sram { unsigned version; unsigned long long counts[11]; unsigned exceeded; };
struct sample { double time; int gpu; };
struct metric { unsigned id, code; double value; const char *names[3]; };
struct metrics { unsigned version, count; struct sample *first, *second; struct metric metrics[1]; };
struct support { unsigned version, supported; };

static int processes(device_t h, struct gpu *g, unsigned *count, struct process_info *out) {
    unsigned n = 0;
    for (int i = 0; i < g->process_count; i++) {
        struct process *p = &g->processes[i];
        if (h->mig >= 0 && p->instance != g->migs[h->mig].gpu_instance) continue;
        if (out && n < *count) {
            unsigned long long memory = p->memory == NA ? ~0ULL : (unsigned long long)p->memory;
            out[n] = (struct process_info){ p->pid, memory, p->instance, p->instance };
        }
        n++;
    }
    int fits = out ? n <= *count : n == 0;
    *count = n;
    return fits ? OK : INSUFFICIENT_SIZE;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device_t h, unsigned *count, struct process_info *out) {
    DEVICE(h);
    return processes(h, g, count, out);
}
int nvmlDeviceGetComputeRunningProcesses_v2(device_t h, unsigned *count, struct process_info *out) {
    DEVICE(h);
    return processes(h, g, count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t h, unsigned *count, struct process_info *out) {
    DEVICE(h);
    (void)out;
    *count = 0;
    return OK;
}
int nvmlDeviceGetRunningProcessDetailList(device_t h, void *list) {
    DEVICE(h);
    (void)list;
    return NOT_SUPPORTED;
}
int nvmlDeviceGetProcessUtilization(device_t h, struct process_sample *out, unsigned *count,
                                    unsigned long long since) {
    DEVICE(h);
    (void)since;
    if (g->attribute[A_mig_mode] == 1) return NOT_SUPPORTED;
    if (!g->process_count) return NOT_FOUND;
    if (!out || *count < (unsigned)g->process_count) {
        *count = g->process_count;
        return INSUFFICIENT_SIZE;
    }
    for (int i = 0; i < g->process_count; i++)
        out[i] = (struct process_sample){ g->processes[i].pid, (unsigned long long)(sim_now() * 1e6),
                                          g->attribute[A_utilization], 40, 0, 0 };
    return OK;
}
int nvmlDeviceGetPcieThroughput(device_t h, unsigned counter, unsigned *out) {
    struct timespec window = { 0, 20000000 }; /* nvml.h: the driver samples for 20 ms */
    DEVICE(h);
    nanosleep(&window, NULL);
    *out = counter ? 5300000 : 2100000;
    return OK;
}
int nvmlDeviceGetMigMode(device_t h, unsigned *now, unsigned *pending) {
    DEVICE(h);
    ATTRIBUTE(mig_mode, now);
    *pending = *now;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(device_t h, unsigned *out) {
    DEVICE(h);
    *out = g->attribute[A_mig_mode] == 1 ? 7 : 0;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(device_t h, unsigned index, device_t *out) {
    DEVICE(h);
    if (index >= (unsigned)g->mig_count) return NOT_FOUND;
    *out = sim_handle(h->gpu, index);
    return OK;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t h, device_t *out) {
    DEVICE(h);
    (void)g;
    *out = sim_handle(h->gpu, -1);
    return OK;
}
int nvmlDeviceIsMigDeviceHandle(device_t h, unsigned *out) {
    DEVICE(h);
    (void)g;
    *out = h->mig >= 0;
    return OK;
}
int nvmlDeviceGetGpuInstanceId(device_t h, unsigned *out) {
    DEVICE(h);
    if (h->mig < 0) return NOT_SUPPORTED;
    *out = g->migs[h->mig].gpu_instance;
    return OK;
}
int nvmlDeviceGetComputeInstanceId(device_t h, unsigned *out) {
    DEVICE(h);
    if (h->mig < 0) return NOT_SUPPORTED;
    *out = g->migs[h->mig].compute_instance;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(device_t h, unsigned kind, unsigned scope, unsigned long long *out) {
    DEVICE(h);
    if (kind) { if (scope) ATTRIBUTE(ecc_uncorrected_aggregate, out);
                else ATTRIBUTE(ecc_uncorrected_volatile, out); }
    else { if (scope) ATTRIBUTE(ecc_corrected_aggregate, out);
           else ATTRIBUTE(ecc_corrected_volatile, out); }
    return OK;
}
int nvmlDeviceGetSramEccErrorStatus(device_t h, struct sram *out) {
    DEVICE(h);
    memset(out->counts, 0, sizeof out->counts);
    ATTRIBUTE(sram_threshold, &out->exceeded);
    return OK;
}
int nvmlDeviceGetNvLinkState(device_t h, unsigned link, unsigned *out) {
    DEVICE(h);
    if (g->attribute[A_links] == NA || link >= MAX_LINKS) return NOT_SUPPORTED;
    *out = g->links[link].state != 0;
    return OK;
}
int nvmlDeviceGetNvLinkErrorCounter(device_t h, unsigned link, unsigned kind, unsigned long long *out) {
    DEVICE(h);
    if (g->attribute[A_links] == NA || link >= MAX_LINKS) return NOT_SUPPORTED;
    struct link *l = &g->links[link];
    *out = kind == 0 ? l->replay : kind == 1 ? l->recovery : l->crc;
    return OK;
}
int nvmlDeviceGetGpuFabricInfo(device_t h, struct fabric *out) {
    DEVICE(h);
    memset(out, 0, sizeof *out);
    ATTRIBUTE(fabric_state, &out->state);
    return OK;
}
int nvmlDeviceGetGpuFabricInfoV(device_t h, struct fabric_v *out) {
    DEVICE(h);
    ATTRIBUTE(fabric_state, &out->state);
    return OK;
}
int nvmlGpmQueryDeviceSupport(device_t h, struct support *out) {
    DEVICE(h);
    out->supported = g->attribute[A_gpm] == 1;
    return OK;
}
int nvmlGpmSampleAlloc(struct sample **out) {
    SYSTEM();
    *out = calloc(1, sizeof **out);
    return OK;
}
int nvmlGpmSampleFree(struct sample *sample) {
    SYSTEM();
    free(sample);
    return OK;
}
int nvmlGpmSampleGet(device_t h, struct sample *out) {
    DEVICE(h);
    if (g->attribute[A_gpm] != 1) return NOT_SUPPORTED;
    *out = (struct sample){ sim_now(), h->gpu };
    return OK;
}
static long long gpm_value(struct gpu *g, unsigned id) {
    return id == 2 ? g->attribute[A_sm_active] : id == 3 ? g->attribute[A_sm_occupancy]
        : id == 5 ? g->attribute[A_tensor_active] : id == 10 ? g->attribute[A_memory_bandwidth] : NA;
}
int nvmlGpmMetricsGet(struct metrics *request) {
    SYSTEM();
    if (request->version != 1) return VERSION_MISMATCH;
    /* nvml.h: a window under 100 ms has no meaning. */
    if (request->second->time - request->first->time < 0.1) return INVALID_ARGUMENT;
    struct gpu *g = &sim_state()->gpus[request->second->gpu];
    for (unsigned i = 0; i < request->count; i++) {
        struct metric *m = &request->metrics[i];
        long long value = gpm_value(g, m->id);
        m->code = value == NA ? NOT_SUPPORTED : OK;
        m->value = value == NA ? 0 : value / 100.0;
    }
    return OK;
}
