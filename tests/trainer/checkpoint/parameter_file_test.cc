#include "millrace/trainer/checkpoint/parameter_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "millrace/formats/safetensors/writer.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace millrace::parameter_file_test {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

// `VmRSS`: what the process holds; `VmHWM`: the most that it held since `forget_peak`.
int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) << 10;
  }
  return 0;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// A model may take half of a machine's memory.
TEST(ParameterFile, IsReadIntoItsBufferWithoutASecondCopy) {
  if (test::kSanitized) GTEST_SKIP() << "memory is the sanitizer's";
  const test::TemporaryFolder folder;
  const std::string path = folder.path("model.safetensors");
  ParameterLayout layout;
  layout.add("table", {16 * kMebibyte});
  layout.finish();
  FlatBuffer written(layout.size());
  std::ranges::fill(written.span(), 0.5F);
  write_safetensors(path, parameter_tensors(layout, written.span()));
  written = {};

  forget_peak();
  const int64_t before = status_bytes("VmRSS");
  FlatBuffer weights = read_weights(SafetensorsFile(path).tensors(), path, layout);
  EXPECT_EQ(weights.span().back(), 0.5F);
  EXPECT_GE(status_bytes("VmHWM") - before, 60 * kMebibyte) << "the buffer itself";
  EXPECT_LE(status_bytes("VmHWM") - before, (64 + 8) * kMebibyte);

  forget_peak();
  const int64_t with_buffer = status_bytes("VmRSS");
  std::ranges::fill(weights.span(), 0.0F);
  const ParameterBuffer buffer{.values = weights.span()};
  read_parameters(SafetensorsFile(path), path, layout, {&buffer, 1});
  EXPECT_EQ(weights.span().front(), 0.5F);
  EXPECT_LE(status_bytes("VmHWM") - with_buffer, 8 * kMebibyte);
}

}  // namespace
}  // namespace millrace::parameter_file_test
