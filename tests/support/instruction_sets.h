#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace millrace::test {

// Calls `check` once for each instruction set that this machine has and Highway has compiled for, the plain C++ form
// among them: what runs here by default is only the widest.
template <typename Check>
void for_each_instruction_set(Check&& check) {
  constexpr int64_t kNone = 0;  // what Highway always has: plain C++
  std::vector<int64_t> sets = hwy::SupportedAndGeneratedTargets();
  sets.push_back(kNone);
  for (const int64_t set : sets) {
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, set == kNone ? "SCALAR" : hwy::TargetName(set));
    hwy::GetChosenTarget().Update(set);
    check();
  }
  hwy::GetChosenTarget().DeInit();
}

}  // namespace millrace::test
