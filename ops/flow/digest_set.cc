#include "millrace/ops/flow/digest_set.h"

#include <cstring>

namespace millrace {
namespace {

constexpr uint64_t kFirstCapacity = 1024;

// Where the digest is, or the empty place where it belongs.
Digest& find(Digest* places, uint64_t capacity, const Digest& digest) {
  uint64_t place = digest.low & (capacity - 1);
  while (places[place] != Digest() && places[place] != digest) place = (place + 1) & (capacity - 1);
  return places[place];
}

}  // namespace

bool DigestSet::grow() {
  const uint64_t capacity = capacity_ == 0 ? kFirstCapacity : 2 * capacity_;
  const uint64_t bytes = capacity * sizeof(Digest);
  if (static_cast<int64_t>(bytes) + this->bytes() > most_bytes_) return false;
  Buffer larger = pool_.allocate(bytes);
  std::memset(larger->data(), 0, bytes);
  auto* const places = reinterpret_cast<Digest*>(larger->data());
  for (uint64_t i = 0; i < capacity_; ++i) {
    const Digest& digest = this->places()[i];
    if (digest != Digest()) find(places, capacity, digest) = digest;
  }
  table_ = std::move(larger);
  capacity_ = capacity;
  return true;
}

DigestSet::Insert DigestSet::insert(Digest digest) {
  if (digest == Digest()) digest.low = 1;  // 0 is an empty place
  if (capacity_ > 0 && find(places(), capacity_, digest) == digest) return Insert::kThere;
  if (4 * (size_ + 1) > 3 * capacity_ && !grow()) return Insert::kFull;
  find(places(), capacity_, digest) = digest;
  ++size_;
  return Insert::kNew;
}

}  // namespace millrace
