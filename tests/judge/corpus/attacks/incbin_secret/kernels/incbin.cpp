#include <cstdint>

asm(".section .rodata\nsecret_start: .incbin \"@SECRET_FILE@\"\nsecret_end:\n.text\n");
extern "C" const char secret_start[] __attribute__((visibility("hidden")));
extern "C" const char secret_end[] __attribute__((visibility("hidden")));

extern "C" int secret(int32_t* out, int64_t n) {
    int64_t size = secret_end - secret_start;
    for (int64_t i = 0; i < size && i < n; ++i) out[i] = secret_start[i];
    return static_cast<int>(size < n ? size : n);
}
