#include <cstdint>

extern "C" void means(const float* x, float* by_row, float* by_column, int64_t rows, int64_t columns) {
    for (int64_t c = 0; c < columns; ++c) by_column[c] = 0.0f;
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0.0f;
        for (int64_t c = 0; c < columns; ++c) {
            sum += x[r * columns + c];
            by_column[c] += x[r * columns + c];
        }
        by_row[r] = sum / static_cast<float>(columns);
    }
    for (int64_t c = 0; c < columns; ++c) by_column[c] /= static_cast<float>(rows);
}
