#include <cstdint>

extern "C" void accumulate(float* total, const float* x, float* out, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int64_t i = r * columns; i < (r + 1) * columns; ++i) sum += total[i] += 0.5f * x[i];
        out[r] = static_cast<float>(sum / static_cast<double>(columns));
    }
}
