/* The questions about the driver itself. */
#include "sim.h"
#include <string.h>

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    SYSTEM();
    return sim_text(sim_state()->driver, out, size);
}
/* Answers before init too, as the real one does. */
int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    sim_count(__func__);
    return sim_text(sim_state()->nvml, out, size);
}
int nvmlSystemGetCudaDriverVersion(int *out) {
    SYSTEM();
    *out = sim_state()->cuda;
    return OK;
}
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    SYSTEM();
    *out = sim_state()->cuda;
    return OK;
}
int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    SYSTEM();
    (void)pid;
    (void)out;
    (void)size;
    return NOT_FOUND;
}
const char *nvmlErrorString(int code) {
    return code == 999 ? "Unknown Error" : code == 15 ? "GPU is lost" : "simulated error";
}
