#include "millrace/pipeline/stream_hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <algorithm>
#include <array>
#include <numeric>

#include <xxhash.h>

namespace millrace {

uint64_t batch_hash(const Batch& batch) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  const auto update = [&state](const void* data, size_t size) { XXH3_64bits_update(&state, data, size); };
  const auto update_number = [&update](int64_t number) { update(&number, sizeof number); };

  const auto& features = batch.schema().features();
  std::vector<size_t> by_name(features.size());
  std::iota(by_name.begin(), by_name.end(), size_t{0});
  std::sort(by_name.begin(), by_name.end(), [&](size_t a, size_t b) { return features[a].name < features[b].name; });
  for (const size_t index : by_name) {
    const Column& column = batch.block().column(index);
    const std::string& name = features[index].name;
    update_number(static_cast<int64_t>(name.size()));
    update(name.data(), name.size());
    const std::string_view dtype = to_string(column.dtype());
    update(dtype.data(), dtype.size());
    const Shape shape = column.shape(0);
    update_number(static_cast<int64_t>(shape.size()));
    for (const int64_t size : shape) update_number(size);
    if (column.is_ragged()) update(column.sizes(0).data(), column.sizes(0).size_bytes());
    if (column.dtype() == DType::kBytes) {
      for (const std::string_view value : column.values<std::string_view>(0)) {
        update_number(static_cast<int64_t>(value.size()));
        update(value.data(), value.size());
      }
    } else {
      update(column.data(0), static_cast<size_t>(column.num_values(0)) * size_of(column.dtype()));
    }
  }
  return XXH3_64bits_digest(&state);
}

void StreamHash::add(uint64_t batch_hash) {
  const std::array<uint64_t, 2> pair = {state_, batch_hash};
  state_ = XXH3_64bits(pair.data(), sizeof pair);
}

std::string StreamHash::hex() const { return fmt::format("{:016x}", state_); }

}  // namespace millrace
