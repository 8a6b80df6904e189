/* A shared library that answers like NVIDIA's driver: the state it answers from, and its helpers. */
#ifndef SIM_H
#define SIM_H
#include <limits.h>

#define MAX_GPUS 16
#define MAX_LINKS 18
#define MAX_PROCS 64
#define MAX_MIGS 8
#define MAX_FAULTS 128
#define MAX_FIELDS 128
#define MAX_XIDS 4096
#define NA LLONG_MIN

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15, VERSION_MISMATCH = 25
};

/* Attribute, default: an H100 SXM that trains. Raw NVML units; NA = the call is not supported. */
#define ATTRIBUTES(X) \
    X(present, 1) X(lost, 0) X(memory_total, 85520809984) X(memory_used, 64424509440) \
    X(memory_reserved, 655360000) X(memory_v2, 1) X(utilization, 97) X(memory_busy, 61) \
    X(temperature, 58) X(memory_temperature, 71) X(margin, 27) X(slowdown_temperature, NA) \
    X(power, 612000) X(power_limit, 700000) X(energy, 91234567890) X(sm_clock, 1755) \
    X(memory_clock, 2619) X(max_sm_clock, 1980) X(max_memory_clock, 2619) X(reasons, 4) \
    X(power_cap_ns, 1200000000) X(sync_boost_ns, 0) X(sw_thermal_ns, 0) X(hw_thermal_ns, 0) \
    X(power_brake_ns, 0) X(pcie_tx, 52000000000) X(pcie_rx, 148000000000) X(replays, 0) \
    X(pcie_generation, 5) X(pcie_generation_max, 5) X(pcie_width, 16) X(pcie_width_max, 16) \
    X(links, 18) X(nvlink_tx, 4100000000) X(nvlink_rx, 4200000000) X(ecc_corrected_volatile, 0) \
    X(ecc_uncorrected_volatile, 0) X(ecc_corrected_aggregate, 2) \
    X(ecc_uncorrected_aggregate, 0) X(remap_corrected, 0) X(remap_uncorrected, 0) \
    X(remap_pending, 0) X(remap_failed, 0) X(retired_pending, NA) X(sram_threshold, 0) \
    X(recovery_action, 0) X(fabric_state, 3) X(gpm, 1) X(sm_active, 8800) \
    X(sm_occupancy, 3600) X(tensor_active, 4700) X(memory_bandwidth, 5400) X(mig_mode, 0)

#define AS_ENUM(name, value) A_##name,
enum { ATTRIBUTES(AS_ENUM) ATTRIBUTE_COUNT };

struct process { unsigned pid; long long memory; unsigned instance; };
struct link { long long state, crc, replay, recovery; };
struct mig { unsigned gpu_instance, compute_instance; long long total, used; char uuid[96], name[96]; };
struct field { unsigned id, scope; long long value; int code; };
struct gpu {
    char uuid[96], name[96], bus_id[32];
    long long attribute[ATTRIBUTE_COUNT];
    struct link links[MAX_LINKS];
    int process_count, mig_count, field_count;
    struct process processes[MAX_PROCS];
    struct mig migs[MAX_MIGS];
    struct field fields[MAX_FIELDS];
};
struct fault { char function[64]; int gpu, code; double delay; };
struct xid { long sequence; int gpu; unsigned long long code; unsigned instance; };
struct state {
    char driver[80], nvml[80];
    int cuda, gpu_count, live, fault_count, xid_count;
    struct gpu gpus[MAX_GPUS];
    struct fault faults[MAX_FAULTS];
    struct xid xids[MAX_XIDS];
};
/* One handle per GPU and per MIG device (mig >= 0); a new set at each init, as the driver's go stale. */
struct handle { int generation, gpu, mig; };

struct state *sim_state(void);
const char *sim_path(void);
void sim_count(const char *function);
int sim_fault(const char *function, int gpu);
int sim_enter(const char *function, struct handle *handle, struct gpu **gpu);
int sim_initialised(void);
double sim_now(void);
long long sim_micros(void);
long long sim_counter(long long base, double per_second);
struct handle *sim_handle(int gpu, int mig);
int sim_gpu_at(unsigned index);
int sim_text(const char *text, char *out, unsigned size);

#define SYSTEM() do { sim_count(__func__); int rc_ = sim_initialised() ? sim_fault(__func__, -1) \
    : UNINITIALIZED; if (rc_) return rc_; } while (0)
#define DEVICE(handle) struct gpu *g; \
    do { int rc_ = sim_enter(__func__, handle, &g); if (rc_) return rc_; } while (0)
#define ATTRIBUTE(name, out) do { \
    if (g->attribute[A_##name] == NA) { return NOT_SUPPORTED; } \
    *(out) = g->attribute[A_##name]; } while (0)
#endif
