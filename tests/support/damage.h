#pragma once

#include <cstdint>
#include <string>

namespace millrace::test {

/// Damages bytes: at other places from call to call, at the same ones in every run.
class Damage {
 public:
  explicit Damage(uint64_t seed = 1) : state_(seed) {}

  /// Flips `count` bits anywhere in `bytes`, which must not be empty.
  void flip_bits(std::string& bytes, int count);
  /// Keeps a beginning of `bytes`, all of them or none at the most and the least.
  void cut(std::string& bytes);

 private:
  uint64_t next();

  uint64_t state_;
};

}  // namespace millrace::test
