// GCC 12 takes the undefined operands of its own intrinsics for a mistake (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define MILLRACE_EIGEN_NAMESPACE EigenOf_gemm_eigen_avx512
#define MILLRACE_GEMM_NAME gemm_eigen_avx512
#include "millrace/trainer/tensor/gemm_eigen-inl.h"
