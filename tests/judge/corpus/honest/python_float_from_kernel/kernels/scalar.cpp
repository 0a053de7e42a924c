#include <cstdint>

extern "C" double mean_square(const float* x, const float* scale, int64_t rows, int64_t columns) {
    double sum = 0.0;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            double v = static_cast<double>(x[r * columns + c]) * scale[c];
            sum += v * v;
        }
    return sum / static_cast<double>(rows * columns);
}
