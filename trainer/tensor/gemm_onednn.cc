#include "millrace/trainer/tensor/gemm_onednn.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include <oneapi/dnnl/dnnl.h>

// Of the OpenMP API: GCC's omp.h is not where clang-tidy looks.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int num_threads);
}

namespace millrace {
namespace {

// Debian's oneDNN splits a product over OpenMP threads. Replicas already fill the cores, and a sum must not depend on
// how many there are: one thread while we are in it. The setting belongs to the calling thread alone, and is given
// back.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneOpenMpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

// While a product runs, the stack pointer of oneDNN before 3.11 may point into its work space on the heap: what the
// system puts below it to call a signal handler overwrites the heap (its issue 4845). Signals of the thread wait until
// then; of those that are for the whole process, other threads may take them meanwhile.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t others;
    ::sigfillset(&others);
    // What the product itself does wrong cannot wait: a crash handler shall see it.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&others, fault);
    ::pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

// Products of the form A^T B with many rows, gradients of weights, are slower by 10 to 30% in one piece than in pieces
// of this many rows (`rates` of gemm_share_bench).
constexpr int64_t kMostRowsOfATransposed = 512;

void multiply(const GemmArguments<float>& x) {
  const dnnl_status_t status = dnnl_sgemm(x.transposed_a ? 'T' : 'N', x.transposed_b ? 'T' : 'N', x.m, x.n, x.k,
                                          x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc);
  if (status != dnnl_success) throw std::runtime_error("oneDNN refused a matrix product");
}

}  // namespace

void gemm_onednn(const GemmArguments<float>& x) {
  const OneOpenMpThread one_thread;
  const SignalsWait signals_wait;
  if (!x.transposed_a || x.transposed_b) return multiply(x);
  for (int64_t row = 0; row < x.k; row += kMostRowsOfATransposed) {
    GemmArguments<float> part = x;
    part.a += row * x.lda;
    part.b += row * x.ldb;
    part.k = std::min(kMostRowsOfATransposed, x.k - row);
    if (row > 0) part.beta = 1;
    multiply(part);
  }
}

}  // namespace millrace
