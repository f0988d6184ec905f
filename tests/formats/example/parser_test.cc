#include "millrace/formats/example/parser.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "tests/support/example_parsing.h"
#include "tests/support/sanitized.h"

namespace millrace::test::parser_test {
namespace {

// Drawn at random.
constexpr uint64_t kRecords = 40'000 / kStride;

using ::testing::HasSubstr;

std::string refusal(const std::vector<FeatureDescription>& features, std::string_view record) {
  return parse_with_millrace(ExampleParser(features), record).refused;
}

std::string record_of(const std::vector<int64_t>& values) {
  ExampleWriter writer;
  writer.add("other", std::span<const int64_t>(values));
  writer.add("x", std::span<const int64_t>(values));
  return writer.finish();
}

TEST(ExampleParser, ErrorsNameTheFeatureAndWhatWasFound) {
  const std::string record = record_of({1, 2, int64_t{1} << 31});
  EXPECT_EQ(refusal({fixed_len("x", {3}, DType::kInt64)}, record), "");
  EXPECT_EQ(refusal({fixed_len("y", {3}, DType::kInt64)}, record),
            "missing_feature: feature 'y' is not in the record and has no default");
  EXPECT_EQ(refusal({fixed_len("x", {2, 2}, DType::kInt64)}, record),
            "wrong_shape: feature 'x' has 3 values, shape [2,2] needs 4");
  EXPECT_EQ(refusal({fixed_len("x", {3}, DType::kBytes)}, record),
            fmt::format("parse: feature 'x' holds int64, expected bytes at byte {} of the record", record.size() - 9));
  EXPECT_EQ(refusal({fixed_len("x", {3}, DType::kInt64).as(DType::kInt32)}, record),
            fmt::format("parse: feature 'x': value 2147483648 does not fit int32 at byte {} of the record",
                        record.size() - 5));
  EXPECT_EQ(refusal({fixed_len("x", {3}, DType::kInt64)}, record.substr(0, record.size() - 1)),
            fmt::format("parse: a length of {} where {} bytes are left at byte 1 of the record", record.size() - 2,
                        record.size() - 3));
}

TEST(ExampleParser, EveryTruncationIsAnErrorExceptTheEmptyRecord) {
  const std::string record = record_of({5, 600, 70000, -8});
  const ExampleParser optional({fixed_len("x", {4}, DType::kInt64).default_value(std::vector<int64_t>{1, 2, 3, 4})});
  EXPECT_EQ(parse_with_millrace(optional, "").refused, "");
  for (size_t size = 1; size < record.size(); ++size) {
    EXPECT_THAT(parse_with_millrace(optional, record.substr(0, size)).refused, HasSubstr("parse")) << size;
  }
}

TEST(ExampleParser, VarintsOfEverySizeComeOutExactly) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> values(random() % 80);
    // Long runs of small values, as in token ids, with others strewn in.
    const uint64_t long_ones = random() % 3;
    for (int64_t& value : values) {
      const uint64_t bits = random() % 16 < long_ones ? 1 + random() % 64 : 1 + random() % 21;
      value = static_cast<int64_t>(random() >> (64 - bits));
    }
    const auto size = static_cast<int64_t>(values.size());
    const ParsedRecord parsed =
        parse_with_millrace(ExampleParser({fixed_len("x", {size}, DType::kInt64)}), record_of(values));
    ASSERT_EQ(parsed.refused, "");
    ASSERT_EQ(std::get<std::vector<int64_t>>(parsed.values[0].values), values);
    std::vector<int64_t> narrow = values;
    for (int64_t& value : narrow) value = static_cast<int32_t>(value);
    const ExampleParser cast({fixed_len("x", {size}, DType::kInt64).as(DType::kInt32)});
    ASSERT_EQ(std::get<std::vector<int64_t>>(parse_with_millrace(cast, record_of(narrow)).values[0].values), narrow);
  }
}

TEST(ExampleParser, BadDescriptionsAreRefusedWhereTheyAreWritten) {
  const auto refused = [](std::vector<FeatureDescription> features) {
    try {
      const ExampleParser parser(std::move(features));
    } catch (const ErrorException& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto int_feature = [] { return fixed_len("x", {2}, DType::kInt64); };
  EXPECT_EQ(refused({int_feature().default_value(std::vector<int64_t>{1, 2})}), "accepted");
  EXPECT_THAT(refused({}), HasSubstr("no features are asked for"));
  EXPECT_THAT(refused({int_feature(), int_feature()}), HasSubstr("'x' is asked for twice"));
  EXPECT_THAT(refused({int_feature().default_value(std::vector<int64_t>{1})}), HasSubstr("has 1 values"));
  EXPECT_THAT(refused({int_feature().default_value(std::vector<float>{1, 2})}), HasSubstr("the default is float32"));
  EXPECT_THAT(refused({int_feature().as(DType::kFloat32)}), HasSubstr("no cast from int64 to float32"));
  EXPECT_THAT(refused({fixed_len("x", {kVaries}, DType::kInt64)}), HasSubstr("not fixed"));
  EXPECT_THAT(refused({fixed_len("x", {2}, DType::kInt32)}), HasSubstr("use kInt64 and .as(kInt32)"));
  EXPECT_THAT(refused({fixed_len("\xff", {2}, DType::kInt64)}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refused({int_feature().as(DType::kInt32).default_value(std::vector<int64_t>{1, int64_t{1} << 31})}),
              HasSubstr("does not fit int32"));
}

// Writes messages as no library would: the same thing in many ways, now and then another thing.
class OddWriter {
 public:
  explicit OddWriter(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t n) { return random_() % n; }

  // Numbers that may cut up the lists of this writer.
  void write_small_numbers() { small_numbers_ = true; }

  std::string sequence_example() {
    std::string record = noise();
    for (uint64_t i = below(4); i > 0; --i) {
      const bool steps = below(3) > 0;
      std::string map;
      for (uint64_t entries = below(4); entries > 0; --entries) {
        map += field(1, entry(steps)) + (below(4) == 0 ? noise() : "");
      }
      record += field(steps ? 2 : 1, map);
    }
    return record + noise();
  }

  std::string example() {
    std::string features;
    const uint64_t num_entries = below(5);
    for (uint64_t i = 0; i < num_entries; ++i) features += field(1, entry()) + noise();
    std::string record = noise();
    const size_t cut = below(4) == 0 ? below(features.size() + 1) : features.size();
    record += field(1, features.substr(0, cut));
    if (cut < features.size()) record += noise() + field(1, features.substr(cut));
    return record + noise();
  }

  // Changes some bytes.
  std::string damaged(std::string bytes) {
    for (uint64_t changes = below(3); changes > 0 && !bytes.empty(); --changes) {
      const size_t at = below(bytes.size());
      switch (below(5)) {
        case 0: bytes[at] = static_cast<char>(random_()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8)); break;
        case 2: bytes.erase(at, 1 + below(4)); break;
        case 3: bytes.insert(at, 1 + below(4), static_cast<char>(random_())); break;
        default: bytes.resize(at);
      }
    }
    return bytes;
  }

 private:
  std::string varint(uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
    // Longer than needed.
    if (below(60) == 0 && bytes.size() < 4) {
      bytes.back() = static_cast<char>(bytes.back() | 0x80);
      bytes += '\0';
    }
    return bytes;
  }
  std::string field(uint32_t number, const std::string& content) {
    return varint(number << 3 | 2) + varint(content.size()) + content;
  }
  std::string noise() {
    switch (below(40)) {
      case 0: return varint(9 << 3) + varint(random_() >> below(64));
      case 1: return varint(9 << 3 | 1) + "12345678";
      case 2: return field(12, "unknown");
      case 3: return varint(9 << 3 | 3) + field(1, "in a group") + varint(9 << 3 | 4);
      case 4: return varint(9 << 3 | 5) + "1234";
      case 5: return varint(1 << 3) + varint(random_());  // a known number with another wire type
      default: return "";
    }
  }
  std::string key() { return std::string(1, static_cast<char>('a' + below(4))); }
  std::string value(bool steps) {
    if (!steps) return feature();
    std::string bytes;
    for (uint64_t i = below(4); i > 0; --i) bytes += field(1, below(6) == 0 ? "" : feature());
    return bytes + (below(4) == 0 ? noise() : "");
  }
  std::string entry(bool steps = false) {
    std::string bytes = noise();
    if (below(30) > 0) bytes += field(1, key());
    if (below(30) > 0) bytes += field(2, value(steps));
    if (below(30) == 0) bytes += field(2, value(steps));
    if (below(60) == 0) bytes += field(1, below(2) == 0 ? key() : "\xc3");
    return bytes + noise();
  }
  std::string feature() {
    std::string bytes = noise();
    const uint64_t lists = below(20) == 0 ? below(4) : 1;
    for (uint64_t i = 0; i < lists; ++i) {
      switch (small_numbers_ && below(2) == 0 ? 2 : below(3)) {
        case 0: bytes += field(1, bytes_list()); break;
        case 1: bytes += field(2, float_list()); break;
        default: bytes += field(3, int_list());
      }
    }
    return bytes + noise();
  }
  uint64_t pieces() { return below(8) == 0 ? below(4) : 1; }
  uint64_t values() { return below(8) == 0 ? below(40) : 3; }
  uint64_t int_value() {
    if (small_numbers_ && below(12) > 0) return below(4);
    return below(12) == 0 ? random_() >> below(64) : random_() % 30000;
  }
  std::string int_list() {
    std::string bytes = noise();
    for (uint64_t i = pieces(); i > 0; --i) {
      const bool packed = below(3) > 0;
      std::string piece;
      for (uint64_t v = values(); v > 0; --v) piece += (packed ? "" : varint(1 << 3)) + varint(int_value());
      bytes += (packed ? field(1, piece) : piece) + noise();
    }
    return bytes;
  }
  std::string float_list() {
    std::string bytes = noise();
    for (uint64_t i = pieces(); i > 0; --i) {
      const bool packed = below(3) > 0;
      std::string piece;
      for (uint64_t v = values(); v > 0; --v) {
        const auto bits = static_cast<uint32_t>(random_());
        piece += packed ? "" : varint(1 << 3 | 5);
        piece.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
      }
      bytes += (packed ? field(1, piece) : piece) + noise();
    }
    return bytes;
  }
  std::string bytes_list() {
    std::string bytes = noise();
    for (uint64_t v = values(); v > 0; --v) bytes += field(1, std::string(below(9), static_cast<char>(random_())));
    return bytes + noise();
  }

  std::mt19937_64 random_;
  bool small_numbers_ = false;
};

struct FuzzCounts {
  int accepted = 0;
  int refused = 0;
  int stricter = 0;
};

// One record against protobuf's own parser.
void compare_with_protobuf(const ParsedRecord& found, const ParsedRecord& expected, const std::string& record,
                           FuzzCounts& counts) {
  // Where readers disagree about the meaning the record is refused, whatever protobuf says.
  if (refused_as_ambiguous(found) || found.refused.find("more than 32 bits") != std::string::npos) {
    ++counts.stricter;
    return;
  }
  ++(found.refused.empty() ? counts.accepted : counts.refused);
  if (!same(found, expected)) {
    std::string hex;
    for (const char c : record) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
    ADD_FAILURE() << "expected " << to_string(expected) << "\nfound " << to_string(found) << "\nrecord " << hex;
  }
}

DType stored_of(OddWriter& writer) {
  return std::vector{DType::kInt64, DType::kFloat32, DType::kBytes}[writer.below(3)];
}

TEST(ExampleParser, OddAndDamagedRecordsMeanWhatTheyMeanToProtobuf) {
  FuzzCounts counts;
  for (uint64_t seed = 0; seed < kRecords; ++seed) {
    OddWriter writer(seed);
    std::vector<FeatureDescription> features;
    for (const char* key : {"a", "b", "c"}) {
      const DType stored = stored_of(writer);
      FeatureDescription feature = fixed_len(key, writer.below(2) == 0 ? Shape{3} : Shape{3, 1}, stored);
      if (stored == DType::kInt64 && writer.below(2) == 0) feature = feature.as(DType::kInt32);
      if (writer.below(4) > 0) {
        if (stored == DType::kInt64) feature = feature.default_value(std::vector<int64_t>{-1, 2, 3});
        if (stored == DType::kFloat32) feature = feature.default_value(std::vector<float>{-1, 2, 3});
        if (stored == DType::kBytes) feature = feature.default_value(std::vector<std::string>{"", "2", "3"});
      }
      features.push_back(feature);
      if (writer.below(3) == 0) break;
    }
    std::string record = writer.example();
    if (writer.below(2) == 0) record = writer.damaged(record);
    compare_with_protobuf(parse_with_millrace(ExampleParser(features), record), parse_with_protobuf(features, record),
                          record, counts);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(counts.accepted, kRecords / 10);
  EXPECT_GT(counts.refused, kRecords / 4);
  EXPECT_LT(counts.stricter, kRecords / 20);
}

// Rows of what the writer's small numbers can cut.
std::vector<Partition> odd_partitions(OddWriter& writer) {
  std::vector<Partition> partitions;
  for (uint64_t i = writer.below(3); i > 0; --i) {
    const std::string key(1, static_cast<char>('b' + writer.below(3)));
    switch (writer.below(6)) {
      case 0: partitions.push_back(row_splits(key)); break;
      case 1: partitions.push_back(row_lengths(key)); break;
      case 2: partitions.push_back(row_starts(key)); break;
      case 3: partitions.push_back(row_limits(key)); break;
      case 4: partitions.push_back(value_rowids(key)); break;
      default: partitions.push_back(uniform_row_length(static_cast<int64_t>(1 + writer.below(3))));
    }
  }
  return partitions;
}

FeatureDescription odd_feature(OddWriter& writer, bool of_steps) {
  const DType stored = stored_of(writer);
  const bool validate = writer.below(3) == 0;
  FeatureDescription feature;
  switch (writer.below(of_steps ? 3 : 4)) {
    case 0: feature = var_len("a", stored); break;
    case 1: feature = fixed_len_sequence("a", {3}, stored, {.allow_missing = !of_steps || writer.below(2) == 0}); break;
    case 2: feature = ragged("a", stored, odd_partitions(writer), {.validate = validate}); break;
    default: {
      const std::vector<std::string> keys{"b", "c"};
      const size_t dimensions = 1 + writer.below(2);
      feature = sparse("s", {keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(dimensions)}, "a", stored,
                       Shape(dimensions, 5), {.already_sorted = writer.below(3) == 0, .validate = validate});
    }
  }
  return stored == DType::kInt64 && writer.below(2) == 0 ? feature.as(DType::kInt32) : feature;
}

TEST(ExampleParser, FeaturesOfVaryingLengthMeanWhatTheyMeanToProtobuf) {
  FuzzCounts counts;
  for (uint64_t seed = 0; seed < kRecords; ++seed) {
    OddWriter writer(seed);
    writer.write_small_numbers();
    const std::vector<FeatureDescription> features{odd_feature(writer, /*of_steps=*/false)};
    std::optional<ExampleParser> parser;
    try {
      parser.emplace(features);
    } catch (const ErrorException&) {
      continue;  // one key as two types
    }
    std::string record = writer.example();
    if (writer.below(3) == 0) record = writer.damaged(record);
    compare_with_protobuf(parse_with_millrace(*parser, record), parse_with_protobuf(features, record), record, counts);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(counts.accepted, kRecords / 5);
  EXPECT_GT(counts.refused, kRecords / 4);
  EXPECT_LT(counts.stricter, kRecords / 13);
  EXPECT_GT(counts.stricter, kRecords / 400);
}

// The values of feature `i` that `find_packed` found, read to room for some more; empty where they are not valid.
template <typename T>
std::optional<FeatureDefault> read_packed(const ExampleParser& parser, size_t i, std::string_view list, int64_t more) {
  using Stored = std::conditional_t<std::is_same_v<T, float>, float, int64_t>;
  const int64_t count = parser.count_packed(i, list);
  const T kBehind = 77;
  std::vector<T> room(static_cast<size_t>(count + more) + 1, kBehind);
  if (!parser.read_packed(i, list, count, count + more, reinterpret_cast<std::byte*>(room.data()))) return {};
  EXPECT_EQ(room.back(), kBehind);
  return std::vector<Stored>(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(count));
}

TEST(ExampleParser, PackedListsHaveTheValuesThatParsingGives) {
  uint64_t plain = 0;
  uint64_t defaults = 0;
  for (uint64_t seed = 0; seed < kRecords; ++seed) {
    OddWriter writer(seed);
    std::vector<FeatureDescription> features;
    for (const char* key : {"a", "b", "c"}) {
      const DType stored = writer.below(2) == 0 ? DType::kInt64 : DType::kFloat32;
      FeatureDescription feature = writer.below(2) == 0 ? var_len(key, stored) : fixed_len(key, {3}, stored);
      if (!feature.shape.empty() && writer.below(2) == 0) {
        feature = stored == DType::kInt64 ? feature.default_value(std::vector<int64_t>{-1, 2, 3})
                                          : feature.default_value(std::vector<float>{-1, 2, 3});
      }
      if (stored == DType::kInt64 && writer.below(2) == 0) feature = feature.as(DType::kInt32);
      features.push_back(feature);
      if (writer.below(2) == 0) break;
    }
    const ExampleParser parser(features);
    ASSERT_TRUE(parser.packs_lists());
    std::string record = writer.example();
    if (writer.below(3) == 0) record = writer.damaged(record);
    std::vector<std::string_view> lists(features.size());
    if (!parser.find_packed(record, lists)) continue;
    std::optional<ParsedRecord> found(std::in_place);
    for (size_t i = 0; i < features.size() && found; ++i) {
      const auto more = static_cast<int64_t>(writer.below(30));
      std::optional<FeatureDefault> values;
      switch (features[i].dtype) {
        case DType::kInt32: values = read_packed<int32_t>(parser, i, lists[i], more); break;
        case DType::kInt64: values = read_packed<int64_t>(parser, i, lists[i], more); break;
        default: values = read_packed<float>(parser, i, lists[i], more);
      }
      const int64_t count = parser.count_packed(i, lists[i]);
      if (!values || (!features[i].shape.empty() && count != 3)) {
        found.reset();
      } else {
        found->values.push_back({{count}, *std::move(values)});
      }
    }
    if (!found) continue;
    ++plain;
    for (size_t i = 0; i < features.size(); ++i) defaults += lists[i].empty() && !features[i].shape.empty() ? 1 : 0;
    const ParsedRecord expected = parse_with_millrace(parser, record);
    ASSERT_TRUE(same(*found, expected)) << "seed " << seed << ": expected " << to_string(expected) << "\nfound "
                                        << to_string(*found);
  }
  EXPECT_GT(plain, kRecords / 10);
  EXPECT_GT(defaults, kRecords / 20);
}

TEST(SequenceExampleParser, OddAndDamagedRecordsMeanWhatTheyMeanToProtobuf) {
  FuzzCounts counts;
  for (uint64_t seed = 0; seed < kRecords; ++seed) {
    OddWriter writer(seed);
    writer.write_small_numbers();
    std::vector<FeatureDescription> context;
    if (writer.below(2) == 0) context = {var_len("a", stored_of(writer))};
    if (writer.below(4) == 0) context = {fixed_len("b", {1}, DType::kInt64).default_value(std::vector<int64_t>{-1})};
    const std::vector<FeatureDescription> lists{odd_feature(writer, /*of_steps=*/true)};
    std::optional<SequenceExampleParser> parser;
    try {
      parser.emplace(context, lists);
    } catch (const ErrorException&) {
      continue;
    }
    std::string record = writer.sequence_example();
    if (writer.below(3) == 0) record = writer.damaged(record);
    compare_with_protobuf(parse_with_millrace(*parser, record), parse_with_protobuf(context, lists, record), record,
                          counts);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(counts.accepted, kRecords / 8);
  EXPECT_GT(counts.refused, kRecords / 4);
  EXPECT_LT(counts.stricter, kRecords / 13);
}

}  // namespace
}  // namespace millrace::test::parser_test
