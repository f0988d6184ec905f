#pragma once

#include <cstdint>

namespace millrace {

/// What a reader asks before it takes memory for something large, such as a record of many MB.
class MemoryGate {
 public:
  /// Whether `bytes` may be taken now; if not, the caller's waker is woken when asking again makes sense.
  /// Somebody whom the consumer waits for is never refused. After a yes `taken` says that the memory is taken.
  virtual bool admit(int64_t bytes) noexcept = 0;
  /// The same for something that nobody waits for yet; after a no nobody is woken.
  virtual bool admit_ahead(int64_t bytes) noexcept = 0;
  virtual void taken(int64_t bytes) noexcept = 0;
  /// Bytes for everything together.
  virtual int64_t budget() const noexcept = 0;

 protected:
  ~MemoryGate() = default;
};

/// Tells a gate that admitted memory is taken, or could not be, when the scope that takes it ends.
class AdmittedMemory {
 public:
  /// `gate` null: nobody was asked.
  AdmittedMemory(MemoryGate* gate, int64_t bytes) noexcept : gate_(gate), bytes_(bytes) {}
  ~AdmittedMemory() {
    if (gate_ != nullptr) gate_->taken(bytes_);
  }
  AdmittedMemory(const AdmittedMemory&) = delete;
  AdmittedMemory& operator=(const AdmittedMemory&) = delete;

 private:
  MemoryGate* gate_;
  int64_t bytes_;
};

}  // namespace millrace
