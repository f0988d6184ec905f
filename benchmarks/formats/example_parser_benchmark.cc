// What a record of a masked language model costs to parse: 512 token ids, most of them small numbers, and 512 ones,
// beside a plain loop over the same varints. `items_per_second` counts records. Each run first checks its output.
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "formats/example/parser.h"
#include "formats/example/writer.h"

namespace millrace {
namespace {

constexpr size_t kLength = 512;
constexpr size_t kVocabulary = 25'000;

/// Records in one piece of memory, as in a chunk of a shard.
struct Records {
  std::vector<std::vector<int64_t>> ids;
  std::string bytes;
  std::vector<std::string_view> records;
};

Records make_records(size_t num_records) {
  Records made;
  uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state >> 11) / 9007199254740992.0;
  };
  const std::vector<int64_t> ones(kLength, 1);
  ExampleWriter writer;
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t r = 0; r < num_records; ++r) {
    // Zipf's law with exponent 1: the rank is log-uniform.
    std::vector<int64_t> ids(kLength);
    for (int64_t& id : ids) id = static_cast<int64_t>(std::pow(kVocabulary, uniform()));
    writer.add("attention_mask", std::span<const int64_t>(ones));
    writer.add("input_ids", std::span<const int64_t>(ids));
    const std::string record = writer.finish();
    places.emplace_back(made.bytes.size(), record.size());
    made.bytes += record;
    made.ids.push_back(std::move(ids));
  }
  for (const auto& [begin, size] : places) made.records.emplace_back(made.bytes.data() + begin, size);
  return made;
}

template <typename Id>
void parse_records(benchmark::State& state) {
  const Records made = make_records(static_cast<size_t>(state.range(0)));
  FeatureDescription ids_feature = fixed_len("input_ids", {kLength}, DType::kInt64);
  if (sizeof(Id) == 4) ids_feature = ids_feature.as(DType::kInt32);
  const ExampleParser parser({ids_feature, fixed_len("attention_mask", {kLength}, DType::kInt64)});
  std::vector<Id> ids(kLength * made.records.size());
  std::vector<int64_t> attention(kLength * made.records.size());
  const auto parse_all = [&] {
    for (size_t r = 0; r < made.records.size(); ++r) {
      std::byte* const destinations[] = {reinterpret_cast<std::byte*>(ids.data() + r * kLength),
                                         reinterpret_cast<std::byte*>(attention.data() + r * kLength)};
      if (parser.parse(made.records[r], destinations)) throw std::logic_error("the record does not parse");
    }
  };
  parse_all();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != made.ids[i / kLength][i % kLength] || attention[i] != 1) throw std::logic_error("other values");
  }
  for (auto _ : state) {
    parse_all();
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(made.records.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(made.bytes.size()));
}
BENCHMARK(parse_records<int32_t>)->Arg(16)->Arg(8192);
BENCHMARK(parse_records<int64_t>)->Arg(16)->Arg(8192);

// The varints of both lists one at a time, with no message around them: what a plain parser cannot beat.
void one_by_one(benchmark::State& state) {
  const Records made = make_records(static_cast<size_t>(state.range(0)));
  std::vector<std::string> lists;
  const std::string ones(kLength, '\1');
  for (const std::vector<int64_t>& ids : made.ids) {
    std::string list;
    for (auto value : ids) {
      for (; value >= 0x80; value >>= 7) list += static_cast<char>(value | 0x80);
      list += static_cast<char>(value);
    }
    lists.push_back(list + ones);
  }
  std::vector<int64_t> values(2 * kLength);
  const auto decode = [&values](const std::string& list) {
    const auto* at = reinterpret_cast<const uint8_t*>(list.data());
    const uint8_t* end = at + list.size();
    int64_t* out = values.data();
    while (at != end) {
      uint64_t value = 0;
      int shift = 0;
      while (at != end && *at >= 0x80) {
        value |= static_cast<uint64_t>(*at++ & 0x7f) << shift;
        shift += 7;
      }
      if (at != end) value |= static_cast<uint64_t>(*at++) << shift;
      *out++ = static_cast<int64_t>(value);
    }
  };
  for (size_t r = 0; r < lists.size(); ++r) {
    decode(lists[r]);
    if (std::memcmp(values.data(), made.ids[r].data(), kLength * sizeof(int64_t)) != 0) {
      throw std::logic_error("other values");
    }
  }
  for (auto _ : state) {
    for (const std::string& list : lists) decode(list);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(lists.size()));
}
BENCHMARK(one_by_one)->Arg(16)->Arg(8192);

void write_records(benchmark::State& state) {
  const Records made = make_records(16);
  const std::vector<int64_t> ones(kLength, 1);
  ExampleWriter writer;
  size_t r = 0;
  for (auto _ : state) {
    writer.add("input_ids", std::span<const int64_t>(made.ids[r]));
    writer.add("attention_mask", std::span<const int64_t>(ones));
    const std::string record = writer.finish();
    if (record != made.records[r]) throw std::logic_error("other bytes");
    r = (r + 1) % made.ids.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(write_records);

}  // namespace
}  // namespace millrace
