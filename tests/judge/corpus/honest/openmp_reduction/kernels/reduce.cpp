#include <cstdint>

extern "C" float square_sum(const float* x, int64_t n) {
    float sum = 0.0f;
#pragma omp parallel for simd reduction(+ : sum) schedule(dynamic, 4096)
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    return sum;
}
