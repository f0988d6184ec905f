#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::test {

/// A fuzz function with its files.
struct Target {
  const char* name;  ///< of the folder in tests/fuzz/corpus
  void (*run)(std::string_view);
  size_t min_files;
};

/// Every fuzz function over the files of its corpus, and over damaged copies of them.
class Corpus : public ::testing::TestWithParam<Target> {
 protected:
  static std::vector<std::string> files();
};

}  // namespace millrace::test
