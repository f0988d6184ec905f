// What a record of a masked language model costs to parse: 512 token ids, most of them small numbers, and 512 ones. Its
// floor is the reading of both packed lists alone; that of these, a loop over the varints one by one.
// `items_per_second` counts records. Each run first checks its output.
#include <cmath>
#include <map>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/formats/example/parser.h"
#include "millrace/formats/example/value_list.h"
#include "millrace/formats/example/writer.h"

namespace millrace {
namespace {

constexpr size_t kLength = 512;
constexpr size_t kVocabulary = 25'000;
constexpr size_t kBatch = 128;  // rows that are written, over and over as in a pipeline's recycled batches

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

// Made once for all runs.
const Records& records_of(const benchmark::State& state) {
  static std::map<int64_t, Records> all;
  const auto [place, is_new] = all.try_emplace(state.range(0));
  if (is_new) place->second = make_records(static_cast<size_t>(state.range(0)));
  return place->second;
}

void count(benchmark::State& state, const Records& made) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(made.records.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(made.bytes.size()));
}

// Times `read(r, ids, attention)`, which reads the lists of record r.
template <typename Id, typename Read>
void read_records(benchmark::State& state, const Records& made, Read&& read) {
  std::vector<Id> ids(kLength * kBatch);
  std::vector<int64_t> attention(kLength * kBatch);
  for (size_t r = 0; r < made.records.size(); ++r) {
    read(r, ids.data(), attention.data());
    for (size_t i = 0; i < kLength; ++i) {
      if (ids[i] != made.ids[r][i] || attention[i] != 1) throw std::logic_error("other values");
    }
  }
  for (auto _ : state) {
    for (size_t r = 0; r < made.records.size(); ++r) {
      read(r, ids.data() + r % kBatch * kLength, attention.data() + r % kBatch * kLength);
      benchmark::ClobberMemory();
    }
  }
  count(state, made);
}

template <typename Id>
void parse(benchmark::State& state) {
  const Records& made = records_of(state);
  FeatureDescription ids_feature = fixed_len("input_ids", {kLength}, DType::kInt64);
  if (sizeof(Id) == 4) ids_feature = ids_feature.as(DType::kInt32);
  const ExampleParser parser({ids_feature, fixed_len("attention_mask", {kLength}, DType::kInt64)});
  BufferPool pool;
  read_records<Id>(state, made, [&](size_t r, Id* ids, int64_t* attention) {
    std::byte* const destinations[] = {reinterpret_cast<std::byte*>(ids), reinterpret_cast<std::byte*>(attention)};
    if (parser.parse(made.records[r], pool, destinations)) throw std::logic_error("the record does not parse");
  });
}

// The values of a record's two lists: field 1, packed.
struct Lists {
  std::string ids;
  std::string attention;
};

std::string packed_list(std::string_view varints) {
  std::string list = "\x0a";
  size_t length = varints.size();
  for (; length >= 0x80; length >>= 7) list += static_cast<char>(length | 0x80);
  list += static_cast<char>(length);
  return list.append(varints);
}

std::string varints_of(const std::vector<int64_t>& values) {
  std::string varints;
  for (auto value : values) {
    for (; value >= 0x80; value >>= 7) varints += static_cast<char>(value | 0x80);
    varints += static_cast<char>(value);
  }
  return varints;
}

// `read(list, values)` reads 512 values of a list.
template <typename Id, typename Read>
void read_lists(benchmark::State& state, bool packed, Read&& read) {
  const Records& made = records_of(state);
  std::vector<Lists> lists;
  for (const std::vector<int64_t>& ids : made.ids) {
    const std::string ones(kLength, '\1');
    lists.push_back(packed ? Lists{packed_list(varints_of(ids)), packed_list(ones)} : Lists{varints_of(ids), ones});
  }
  read_records<Id>(state, made, [&](size_t r, Id* ids, int64_t* attention) {
    read(lists[r].ids, ids);
    read(lists[r].attention, attention);
  });
}

template <typename Id>
void read_packed_lists(benchmark::State& state) {
  wire::ValueList values{.kind = DType::kInt64, .piece = {}, .more = {}};
  read_lists<Id>(state, /*packed=*/true, [&values]<typename T>(std::string_view list, T* out) {
    values.piece = list;
    wire::read_values(values, DTypeOf<T>::value, kLength, reinterpret_cast<std::byte*>(out));
  });
}

template <typename Id>
void read_one_by_one(benchmark::State& state) {
  read_lists<Id>(state, /*packed=*/false, [](std::string_view list, auto* out) {
    const auto* at = reinterpret_cast<const uint8_t*>(list.data());
    const uint8_t* end = at + list.size();
    while (at != end) {
      uint64_t value = 0;
      int shift = 0;
      while (at != end && *at >= 0x80) {
        value |= static_cast<uint64_t>(*at++ & 0x7f) << shift;
        shift += 7;
      }
      if (at != end) value |= static_cast<uint64_t>(*at++) << shift;
      *out++ = static_cast<std::remove_pointer_t<decltype(out)>>(value);
    }
  });
}

// Records that lie in a core's caches, and some that do not.
void records(benchmark::internal::Benchmark* benchmark) { benchmark->Arg(16)->Arg(8192); }
BENCHMARK(parse<int32_t>)->Name("parse_int32")->Apply(records);
BENCHMARK(read_packed_lists<int32_t>)->Name("parse_int32_floor")->Apply(records);
BENCHMARK(parse<int64_t>)->Name("parse_int64")->Apply(records);
BENCHMARK(read_packed_lists<int64_t>)->Name("parse_int64_floor")->Apply(records);
BENCHMARK(read_packed_lists<int32_t>)->Name("varints_int32")->Apply(records);
BENCHMARK(read_one_by_one<int32_t>)->Name("varints_int32_floor")->Apply(records);
BENCHMARK(read_packed_lists<int64_t>)->Name("varints_int64")->Apply(records);
BENCHMARK(read_one_by_one<int64_t>)->Name("varints_int64_floor")->Apply(records);

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
