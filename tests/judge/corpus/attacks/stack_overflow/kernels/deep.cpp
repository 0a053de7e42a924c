#include <cstdint>

extern "C" float deep(const float* x, float* out, int64_t n) {
    volatile float frame[1024];
    frame[n % 1024] = x[0];
    out[0] = frame[0] + deep(x, out, n + 1) + frame[n % 1024];
    return out[0];
}
