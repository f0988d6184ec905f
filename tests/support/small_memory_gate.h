#pragma once

#include "millrace/formats/columnar/memory_gate.h"

namespace millrace::test {

// A budget that lets everything pass: what stages ask for by themselves is seen.
class SmallMemoryGate final : public MemoryGate {
 public:
  explicit SmallMemoryGate(int64_t budget) : budget_(budget) {}
  bool admit(int64_t) noexcept override { return true; }
  bool admit_ahead(int64_t) noexcept override { return true; }
  void taken(int64_t) noexcept override {}
  int64_t budget() const noexcept override { return budget_; }

 private:
  int64_t budget_;
};

}  // namespace millrace::test
