#include <cstdint>

extern "C" void variance(const float* x, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        float mean = 0.0f, sum = 0.0f;
        for (int64_t c = 0; c < columns; ++c) {
            float delta = x[r * columns + c] - mean;
            mean += delta / static_cast<float>(c + 1);
            sum += delta * (x[r * columns + c] - mean);
        }
        out[r] = sum / static_cast<float>(columns - 1);
    }
}
