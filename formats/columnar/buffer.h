#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace millrace {

/// Something that blocks keep alive by counting references: a buffer, or the rows that a stage lent out. `release()`
/// runs on whichever thread drops the last reference.
class Resource {
 public:
  Resource() = default;
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;

 protected:
  virtual ~Resource() = default;
  virtual void release() noexcept = 0;

 private:
  template <typename T>
  friend class Ref;
  std::atomic<int32_t> references_{0};
};

/// A counted reference to a `Resource`. Copies may live on any thread.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* resource) : resource_(resource) { add(); }
  Ref(const Ref& other) : resource_(other.resource_) { add(); }
  Ref(Ref&& other) noexcept : resource_(std::exchange(other.resource_, nullptr)) {}
  template <typename U>
  Ref(const Ref<U>& other) : resource_(other.get()) {  // NOLINT(google-explicit-constructor): like a pointer to a base
    add();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(resource_, other.resource_);
    return *this;
  }
  ~Ref() { drop(); }

  T* get() const { return resource_; }
  T* operator->() const { return resource_; }
  T& operator*() const { return *resource_; }
  explicit operator bool() const { return resource_ != nullptr; }
  /// Whether there is no other reference to this resource: what others did with it before is visible then.
  bool is_only_one() const { return base().references_.load(std::memory_order_acquire) == 1; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.resource_ == b.resource_; }

 private:
  void add() {
    if (resource_ != nullptr) base().references_.fetch_add(1, std::memory_order_relaxed);
  }
  void drop() {
    if (resource_ != nullptr && base().references_.fetch_sub(1, std::memory_order_acq_rel) == 1) base().release();
  }
  Resource& base() const { return *resource_; }

  T* resource_ = nullptr;
};

class BufferPool;

/// A block of memory, 64-byte aligned, that goes back to its pool when the last reference is dropped. The bytes are not
/// initialised. Whoever fills it is its only writer; after that it is read only.
class BufferBody final : public Resource {
 public:
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  /// Bytes that may be used: at least what was asked for.
  size_t capacity() const { return capacity_; }

 private:
  friend class BufferPool;
  struct PoolState;
  BufferBody() = default;
  ~BufferBody() override = default;
  void release() noexcept override;

  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  int size_class_ = 0;
  uint32_t home_ = 0;  // of the thread that took it last
  bool is_unlimited_ = false;
  std::shared_ptr<PoolState> pool_;
};

using Buffer = Ref<BufferBody>;

/// Hands out buffers and recycles them, so that a pipeline in steady state neither allocates nor faults in fresh pages.
/// Thread safe and free of locks. Buffers may outlive the pool.
///
///     BufferPool pool;
///     Buffer buffer = pool.allocate(256 << 10);
///     std::memcpy(buffer->data(), source, size);
class BufferPool {
 public:
  BufferPool();
  /// A buffer of at least `bytes` bytes. Throws std::bad_alloc when the system has none, and `MemoryBudgetError` when
  /// more would be in use than `refuse_beyond` allows.
  [[nodiscard]] Buffer allocate(size_t bytes);
  /// Memory that counts among what is in use but is never kept free, until `give_back`. Throws as `allocate` does.
  [[nodiscard]] void* take(size_t bytes);
  void give_back(void* memory, size_t bytes) noexcept;
  /// Bytes in buffers that somebody holds now.
  int64_t bytes_in_use() const;
  /// The most that was in use at a time.
  int64_t peak_bytes_in_use() const;
  /// Free buffers are kept only as long as they and those in use take less than `bytes`: beyond it what is freed goes
  /// back to the system. After `expect_room`, the next buffer whose release leaves less than `room_at` in use calls
  /// `room_made`, once, on any thread. The function must not block; when this call returns no other is running.
  void set_limit(int64_t bytes, int64_t room_at, std::function<void()> room_made);
  /// From now on nobody gets memory with which more than `bytes` would be in use, `Unlimited` apart, which does not
  /// count here. `budget`: what errors name. Default: no limit.
  void refuse_beyond(int64_t bytes, int64_t budget);
  /// While one lives, its thread gets what the system has: for functions of users, and for what stands in the place of
  /// an error.
  class Unlimited {
   public:
    Unlimited() noexcept;
    ~Unlimited();
    Unlimited(const Unlimited&) = delete;
    Unlimited& operator=(const Unlimited&) = delete;
  };
  void expect_room() noexcept;
  /// Buffers made from fresh memory since the pool began: constant in steady state.
  int64_t fresh_allocations() const;

 private:
  std::shared_ptr<BufferBody::PoolState> state_;
};

}  // namespace millrace
