#pragma once

#include <cstdint>

namespace millrace {

/// The arguments of `gemm` with 0 < m, n, k.
template <typename T>
struct GemmArguments {
  bool transposed_a;
  bool transposed_b;
  int64_t m, n, k;
  T alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T beta;
  T* c;
  int64_t ldc;
};

/// Eigen's product, compiled for any x86-64 (or whatever the build's flags say), for AVX2 with FMA, and for AVX-512.
/// The latter two exist on x86-64 only, and may be called only where the processor has these instructions.
void gemm_eigen(const GemmArguments<float>& arguments);
void gemm_eigen(const GemmArguments<double>& arguments);
void gemm_eigen_avx2(const GemmArguments<float>& arguments);
void gemm_eigen_avx2(const GemmArguments<double>& arguments);
void gemm_eigen_avx512(const GemmArguments<float>& arguments);
void gemm_eigen_avx512(const GemmArguments<double>& arguments);

}  // namespace millrace
