#include "tests/support/damage.h"

namespace millrace::test {

uint64_t Damage::next() {
  state_ = state_ * 6364136223846793005U + 1442695040888963407U;
  return state_ >> 20;
}

void Damage::flip_bits(std::string& bytes, int count) {
  for (int i = 0; i < count; ++i) {
    const uint64_t random = next();
    char& byte = bytes[(random >> 13) % bytes.size()];
    byte = static_cast<char>(byte ^ 1 << (random & 7));
  }
}

void Damage::cut(std::string& bytes) { bytes.resize(next() % (bytes.size() + 1)); }

}  // namespace millrace::test
