#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

/// Whether a matrix enters a product as it lies in memory or transposed.
enum class Transposed { kNo, kYes };

/// `C = alpha op(A) op(B) + beta C` for row-major matrices: op(A) is `[m, k]`, op(B) `[k, n]`, C `[m, n]`; `lda`, `ldb`
/// and `ldc` are the distances between rows in memory, in values. With beta = 0 what C held before does not matter,
/// also when it is NaN; with k = 0, C becomes beta C. Runs on the calling thread alone; the result depends on the
/// arguments and the processor's instruction set only. T is float or double.
///
/// The one place where Millrace multiplies matrices. Floats go through oneDNN where it was found at build time, else,
/// like doubles, through Eigen, which is compiled for several instruction sets and chosen at run time.
template <typename T>
void gemm(Transposed transposed_a, Transposed transposed_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

/// What multiplies floats here: `oneDNN`, or `Eigen (AVX-512)`, `Eigen (AVX2)`, `Eigen`.
std::string_view gemm_backend();

}  // namespace millrace
