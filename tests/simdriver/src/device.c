/* The plain questions about one GPU: identity, memory, clocks, power, temperature, PCIe. */
#include "sim.h"
#include <stdio.h>
#include <string.h>

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct utilization { unsigned gpu, memory; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct temperature { unsigned version, sensor; int value; };
struct margin { unsigned version; int value; };
typedef struct handle *device_t;

int nvmlDeviceGetCount_v2(unsigned *count) {
    SYSTEM();
    for (*count = 0; sim_gpu_at(*count) >= 0;) ++*count;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *handle) {
    SYSTEM();
    int gpu = sim_gpu_at(index);
    if (gpu < 0) return INVALID_ARGUMENT;
    if (sim_state()->gpus[gpu].attribute[A_lost]) return GPU_IS_LOST;
    int code = sim_fault("handle", gpu);
    if (!code) *handle = sim_handle(gpu, -1);
    return code;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *handle) {
    SYSTEM();
    struct state *s = sim_state();
    for (int i = 0; i < s->gpu_count; i++) {
        if (!s->gpus[i].attribute[A_present]) continue;
        if (!strcmp(s->gpus[i].uuid, uuid)) { *handle = sim_handle(i, -1); return OK; }
        for (int m = 0; m < s->gpus[i].mig_count; m++)
            if (!strcmp(s->gpus[i].migs[m].uuid, uuid)) { *handle = sim_handle(i, m); return OK; }
    }
    return NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device_t *handle) {
    SYSTEM();
    for (int i = 0; i < sim_state()->gpu_count; i++)
        if (!strcasecmp(sim_state()->gpus[i].bus_id, bus_id)) { *handle = sim_handle(i, -1); return OK; }
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(device_t h, unsigned *index) {
    DEVICE(h);
    for (*index = 0; sim_gpu_at(*index) != h->gpu;) ++*index;
    return OK;
}
int nvmlDeviceGetUUID(device_t h, char *out, unsigned size) {
    DEVICE(h);
    return sim_text(h->mig < 0 ? g->uuid : g->migs[h->mig].uuid, out, size);
}
int nvmlDeviceGetName(device_t h, char *out, unsigned size) {
    DEVICE(h);
    return sim_text(h->mig < 0 ? g->name : g->migs[h->mig].name, out, size);
}
int nvmlDeviceGetSerial(device_t h, char *out, unsigned size) {
    DEVICE(h);
    return sim_text("1650123456789", out, size);
}
int nvmlDeviceGetPciInfo_v3(device_t h, struct pci *out) {
    DEVICE(h);
    memset(out, 0, sizeof *out);
    strcpy(out->bus_id, g->bus_id);
    snprintf(out->legacy, sizeof out->legacy, "%s", g->bus_id + 4);
    sscanf(g->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    out->id = 0x233010de;
    return OK;
}
int nvmlDeviceGetMemoryInfo(device_t h, struct memory *out) {
    DEVICE(h);
    ATTRIBUTE(memory_total, &out->total);
    out->used = g->attribute[A_memory_used] + g->attribute[A_memory_reserved];
    if (h->mig >= 0) { out->total = g->migs[h->mig].total; out->used = g->migs[h->mig].used; }
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(device_t h, struct memory_v2 *out) {
    DEVICE(h);
    if (!g->attribute[A_memory_v2] || out->version != 0x02000028) return VERSION_MISMATCH;
    ATTRIBUTE(memory_total, &out->total);
    out->used = g->attribute[A_memory_used];
    out->reserved = g->attribute[A_memory_reserved];
    if (h->mig >= 0) {
        out->total = g->migs[h->mig].total;
        out->used = g->migs[h->mig].used;
        out->reserved = 0;
    }
    out->free = out->total - out->used - out->reserved;
    return OK;
}
int nvmlDeviceGetUtilizationRates(device_t h, struct utilization *out) {
    DEVICE(h);
    if (g->attribute[A_mig_mode] == 1) return NOT_SUPPORTED;
    ATTRIBUTE(utilization, &out->gpu);
    ATTRIBUTE(memory_busy, &out->memory);
    return OK;
}
int nvmlDeviceGetEncoderUtilization(device_t h, unsigned *rate, unsigned *period) {
    DEVICE(h);
    *rate = 0;
    *period = 166666;
    return g->attribute[A_mig_mode] == 1 ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetDecoderUtilization(device_t h, unsigned *rate, unsigned *period) {
    DEVICE(h);
    *rate = 0;
    *period = 166666;
    return g->attribute[A_mig_mode] == 1 ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetTemperature(device_t h, unsigned sensor, unsigned *out) {
    DEVICE(h);
    if (sensor) return INVALID_ARGUMENT;
    ATTRIBUTE(temperature, out);
    return OK;
}
int nvmlDeviceGetTemperatureV(device_t h, struct temperature *out) {
    DEVICE(h);
    ATTRIBUTE(temperature, &out->value);
    return OK;
}
int nvmlDeviceGetTemperatureThreshold(device_t h, unsigned kind, unsigned *out) {
    DEVICE(h);
    if (kind != 1) return NOT_SUPPORTED;
    ATTRIBUTE(slowdown_temperature, out);
    return OK;
}
int nvmlDeviceGetMarginTemperature(device_t h, struct margin *out) {
    DEVICE(h);
    ATTRIBUTE(margin, &out->value);
    return OK;
}
int nvmlDeviceGetFanSpeed(device_t h, unsigned *out) {
    DEVICE(h);
    *out = 0;
    return NOT_SUPPORTED;
}
int nvmlDeviceGetPowerUsage(device_t h, unsigned *out) {
    DEVICE(h);
    ATTRIBUTE(power, out);
    return OK;
}
int nvmlDeviceGetPowerManagementLimit(device_t h, unsigned *out) {
    DEVICE(h);
    ATTRIBUTE(power_limit, out);
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(device_t h, unsigned *out) {
    DEVICE(h);
    ATTRIBUTE(power_limit, out);
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(device_t h, unsigned long long *out) {
    DEVICE(h);
    ATTRIBUTE(energy, out);
    *out = sim_counter(*out, g->attribute[A_power]);
    return OK;
}
int nvmlDeviceGetClockInfo(device_t h, unsigned clock, unsigned *out) {
    DEVICE(h);
    if (clock == 2) ATTRIBUTE(memory_clock, out); else ATTRIBUTE(sm_clock, out);
    return OK;
}
int nvmlDeviceGetMaxClockInfo(device_t h, unsigned clock, unsigned *out) {
    DEVICE(h);
    if (clock == 2) ATTRIBUTE(max_memory_clock, out); else ATTRIBUTE(max_sm_clock, out);
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(device_t h, unsigned long long *out) {
    DEVICE(h);
    ATTRIBUTE(reasons, out);
    return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device_t h, unsigned long long *out) {
    DEVICE(h);
    ATTRIBUTE(reasons, out);
    return OK;
}
int nvmlDeviceGetCurrPcieLinkGeneration(device_t h, unsigned *out) {
    DEVICE(h);
    ATTRIBUTE(pcie_generation, out);
    return OK;
}
int nvmlDeviceGetMaxPcieLinkGeneration(device_t h, unsigned *out) {
    DEVICE(h);
    ATTRIBUTE(pcie_generation_max, out);
    return OK;
}
int nvmlDeviceGetCurrPcieLinkWidth(device_t h, unsigned *out) {
    DEVICE(h);
    ATTRIBUTE(pcie_width, out);
    return OK;
}
int nvmlDeviceGetMaxPcieLinkWidth(device_t h, unsigned *out) {
    DEVICE(h);
    ATTRIBUTE(pcie_width_max, out);
    return OK;
}
