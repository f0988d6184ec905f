#include "tests/memory/failing_allocations.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>

#include "millrace/formats/columnar/buffer.h"

namespace millrace::test {
namespace {

constexpr size_t kLarge = 4 << 10;

std::atomic<AllocationCounts*> counts{nullptr};
AllocationKind kind_to_fail = AllocationKind::kLarge;
int64_t number_to_fail = 0;
bool later_fail_too = false;
thread_local bool in_request = false;  // of a BufferPool, which was counted

void keep_backtrace(AllocationCounts& kept) {
  kept.num_frames = ::backtrace(kept.failed_at.data(), static_cast<int>(kept.failed_at.size()));
}

bool fails(AllocationKind kind) {
  AllocationCounts* const counted = counts.load(std::memory_order_acquire);
  if (counted == nullptr || in_request) return false;
  const int64_t number = (kind == AllocationKind::kLarge ? counted->large : counted->small).fetch_add(1) + 1;
  if (kind != kind_to_fail || number_to_fail == 0 || number < number_to_fail) return false;
  if (number == number_to_fail) keep_backtrace(*counted);
  return number == number_to_fail || later_fail_too;
}

bool fails(size_t bytes) { return fails(bytes >= kLarge ? AllocationKind::kLarge : AllocationKind::kSmall); }

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

void fail_allocation(AllocationCounts& counted, AllocationKind kind, int64_t number, bool and_later) {
  keep_backtrace(counted);  // loads what it needs
  counted.num_frames = 0;
  kind_to_fail = kind;
  number_to_fail = number;
  later_fail_too = and_later;
  counts.store(&counted, std::memory_order_release);
}

}  // namespace millrace::test

// In the place of the C library's, for the program and all libraries that it loads.
extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  using namespace millrace::test;
  return fails(bytes) ? no_memory() : __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  using namespace millrace::test;
  return fails(count * bytes) ? no_memory() : __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  using namespace millrace::test;
  return fails(bytes) ? no_memory() : __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  using namespace millrace::test;
  return fails(bytes) ? no_memory() : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* const found = memalign(alignment, bytes);
  if (found == nullptr) return ENOMEM;
  *memory = found;
  return 0;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  using namespace millrace::test;
  static auto* const real = reinterpret_cast<decltype(&mmap)>(::dlsym(RTLD_NEXT, "mmap"));
  if ((flags & MAP_ANONYMOUS) != 0 && protection != PROT_NONE && fails(bytes)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(address, bytes, protection, flags, file, offset);
}

// The linker puts this one in the place of BufferPool::allocate, where it is called from other files than its own.
millrace::Buffer __real__ZN8millrace10BufferPool8allocateEm(millrace::BufferPool* pool, size_t bytes);
millrace::Buffer __wrap__ZN8millrace10BufferPool8allocateEm(millrace::BufferPool* pool, size_t bytes) {
  using namespace millrace::test;
  if (fails(AllocationKind::kLarge)) throw std::bad_alloc();
  struct Mark {
    Mark() { in_request = true; }
    ~Mark() { in_request = false; }
  };
  const Mark mark;
  return __real__ZN8millrace10BufferPool8allocateEm(pool, bytes);
}

}  // extern "C"
