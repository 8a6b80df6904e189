/* nvmlDeviceGetFieldValues: many answers in one call, each with its own return code. */
#include "sim.h"
#include <stdint.h>
#include <string.h>

#define ALL_LINKS UINT32_MAX
typedef struct handle *device_t;
struct value {
    uint32_t id, scope;
    int64_t timestamp, latency;
    unsigned type, code;
    union { double d; unsigned u; unsigned long ul; unsigned long long ull; int s; } value;
};
enum { UINT = 1, ULL = 3, SINT = 5 };

static const struct { unsigned id, attribute, type; } SIMPLE[] = {
    { 3, A_ecc_corrected_volatile, ULL }, { 4, A_ecc_uncorrected_volatile, ULL },
    { 5, A_ecc_corrected_aggregate, ULL }, { 6, A_ecc_uncorrected_aggregate, ULL },
    { 31, A_retired_pending, UINT }, { 74, A_power_cap_ns, ULL }, { 76, A_sync_boost_ns, ULL },
    { 82, A_memory_temperature, UINT }, { 91, A_links, UINT }, { 94, A_replays, UINT },
    { 142, A_remap_corrected, UINT }, { 143, A_remap_uncorrected, UINT },
    { 144, A_remap_pending, UINT }, { 145, A_remap_failed, UINT }, { 185, A_power, UINT },
    { 186, A_power, UINT }, { 190, A_power_limit, UINT }, { 230, A_recovery_action, UINT },
    { 269, A_sw_thermal_ns, ULL }, { 270, A_hw_thermal_ns, ULL }, { 271, A_power_brake_ns, ULL },
};

static long long link_value(struct gpu *g, struct value *v) {
    if (g->attribute[A_links] == NA || v->scope >= (unsigned)g->attribute[A_links]
        || v->scope >= MAX_LINKS) return NA;
    struct link *l = &g->links[v->scope];
    return v->id == 165 ? l->state : v->id == 161 ? l->replay : v->id == 162 ? l->recovery : l->crc;
}

static long long counter_value(struct gpu *g, struct value *v) {
    long long *a = g->attribute;
    v->type = ULL;
    switch (v->id) {
    case 83: return sim_counter(a[A_energy], a[A_power]);
    case 197: return sim_counter(a[A_pcie_tx], 2.1e9);
    case 198: return sim_counter(a[A_pcie_rx], 5.3e9);
    case 138: case 140:
        if (v->scope == ALL_LINKS) return sim_counter(a[A_nvlink_tx], 9.1e7);
        return a[A_nvlink_tx] == NA ? NA : sim_counter(a[A_nvlink_tx], 9.1e7) / MAX_LINKS;
    case 139: case 141:
        if (v->scope == ALL_LINKS) return sim_counter(a[A_nvlink_rx], 9.2e7);
        return a[A_nvlink_rx] == NA ? NA : sim_counter(a[A_nvlink_rx], 9.2e7) / MAX_LINKS;
    case 161: case 162: case 163: return link_value(g, v);
    case 165: v->type = UINT; return link_value(g, v);
    default: return NA;
    }
}

static void answer(struct gpu *g, struct value *v) {
    long long result = NA;
    int simple = 0, code = OK;
    for (unsigned i = 0; i < sizeof SIMPLE / sizeof *SIMPLE; i++)
        if (SIMPLE[i].id == v->id) {
            result = g->attribute[SIMPLE[i].attribute];
            v->type = SIMPLE[i].type;
            simple = 1;
        }
    if (!simple) result = counter_value(g, v);
    for (int i = 0; i < g->field_count; i++) {
        struct field *f = &g->fields[i];
        if (f->id == v->id && (f->scope == v->scope || f->scope == ALL_LINKS)) {
            result = f->value;
            code = f->code;
        }
    }
    v->code = code ? code : result == NA ? NOT_SUPPORTED : OK;
    v->latency = 3;
    if (v->code) return;
    if (v->type == ULL) v->value.ull = result; else v->value.u = (unsigned)result;
}

int nvmlDeviceGetFieldValues(device_t h, int count, struct value *values) {
    DEVICE(h);
    int64_t now = sim_micros();
    for (int i = 0; i < count; i++) {
        values[i].timestamp = now;
        answer(g, &values[i]);
    }
    return OK;
}
