#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::test {

/// A TensorProto of float32 [side, side, 3], all of one value, as the workload `images` reads it; `side` is a multiple
/// of 128 below 2^14.
inline std::string image_message(int64_t side, float value) {
  const auto varint = [](size_t number) {
    std::string bytes;
    for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
    return bytes + static_cast<char>(number);
  };
  const std::vector<float> pixels(static_cast<size_t>(side * side * 3), value);
  const std::string dimension = "\x12\x03\x08" + varint(static_cast<size_t>(side));
  std::string message = "\x08\x01\x12\x0e" + dimension + dimension + "\x12\x02\x08\x03\x22";
  message += varint(pixels.size() * sizeof(float));
  return message.append(reinterpret_cast<const char*>(pixels.data()), pixels.size() * sizeof(float));
}

}  // namespace millrace::test
