#include "millrace/formats/columnar/iteration.h"

namespace millrace {

Iteration Iteration::nested(uint64_t ordinal) const {
  // The finaliser of MurmurHash3, once for each level.
  uint64_t digest = path ^ (0x9e3779b97f4a7c15ULL * (ordinal + 1));
  digest = (digest ^ (digest >> 33)) * 0xff51afd7ed558ccdULL;
  digest = (digest ^ (digest >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return {epoch, digest ^ (digest >> 33)};
}

}  // namespace millrace
