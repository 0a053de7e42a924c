#include <cmath>
#include <cstdint>

extern "C" void layer_norm(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns,
                           float eps) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * columns;
        double mean = 0.0, square = 0.0;
        for (int64_t c = 0; c < columns; ++c) mean += row[c];
        mean /= static_cast<double>(columns);
        for (int64_t c = 0; c < columns; ++c) square += (row[c] - mean) * (row[c] - mean);
        float scale = static_cast<float>(1.0 / std::sqrt(square / static_cast<double>(columns) + eps));
        for (int64_t c = 0; c < columns; ++c)
            out[r * columns + c] = static_cast<float>(row[c] - mean) * scale * w[c] + b[c];
    }
}
