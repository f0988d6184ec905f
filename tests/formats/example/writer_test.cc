#include "millrace/formats/example/writer.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "tests/support/example_messages.h"

namespace millrace::example_writer_test {
namespace {

std::string deterministic_bytes(const example::Example& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

TEST(ExampleWriter, BytesAreThoseOfProtobufsDeterministicSerialization) {
  std::mt19937_64 random(1);  // raw words only
  ExampleWriter writer;
  for (int round = 0; round < 200; ++round) {
    example::Example message;
    message.mutable_features();
    auto& features = *message.mutable_features()->mutable_feature();
    const size_t num_features = 1 + random() % 5;
    for (size_t f = 0; f < num_features; ++f) {
      const std::string key =
          std::string(random() % 3, 'k') + std::to_string(random() % 1000) + "-" + std::to_string(f);
      const size_t count = random() % 2 == 0 ? random() % 4 : random() % 300;
      switch (random() % 4) {
        case 0: {
          std::vector<int64_t> values;
          for (size_t i = 0; i < count; ++i) values.push_back(static_cast<int64_t>(random()) >> (random() % 64));
          writer.add(key, std::span<const int64_t>(values));
          *features[key].mutable_int64_list()->mutable_value() = {values.begin(), values.end()};
          break;
        }
        case 1: {
          std::vector<int32_t> values;
          for (size_t i = 0; i < count; ++i) values.push_back(static_cast<int32_t>(random()) >> (random() % 32));
          writer.add(key, std::span<const int32_t>(values));
          *features[key].mutable_int64_list()->mutable_value() = {values.begin(), values.end()};
          break;
        }
        case 2: {
          std::vector<float> values;
          for (size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random() % 1000) / 7);
          writer.add(key, std::span<const float>(values));
          *features[key].mutable_float_list()->mutable_value() = {values.begin(), values.end()};
          break;
        }
        default: {
          std::vector<std::string> strings;
          for (size_t i = 0; i < count; ++i)
            strings.push_back(std::string(random() % 200, static_cast<char>(random())));
          const std::vector<std::string_view> values(strings.begin(), strings.end());
          writer.add(key, std::span<const std::string_view>(values));
          auto& list = *features[key].mutable_bytes_list();
          for (const std::string& value : strings) list.add_value(value);
        }
      }
    }
    ASSERT_EQ(writer.finish(), deterministic_bytes(message)) << "round " << round;
  }
}

TEST(ExampleWriter, AWriterWithoutFeaturesGivesTheEmptyMessage) { EXPECT_EQ(ExampleWriter().finish(), ""); }

TEST(ExampleWriter, RefusesAKeyThatIsThereOrIsNotUtf8) {
  ExampleWriter writer;
  const std::vector<int64_t> values{1};
  writer.add("a", std::span<const int64_t>(values));
  EXPECT_THROW(writer.add("a", std::span<const int64_t>(values)), ErrorException);
  EXPECT_THROW(writer.add("\xff", std::span<const int64_t>(values)), ErrorException);
  const std::string one = writer.finish();
  writer.add("a", std::span<const int64_t>(values));
  EXPECT_EQ(writer.finish(), one);
}

TEST(Utf8, FindsTheFirstCharacterThatIsNotValid) {
  for (const std::string& valid :
       std::vector<std::string>{"", "plain ascii, long enough", "\xc3\xa9", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(valid_utf8_prefix(valid), valid.size()) << valid;
    EXPECT_EQ(valid_utf8_prefix("0123456789" + valid + "0123456789"), valid.size() + 20) << valid;
  }
  for (const std::string& invalid : std::vector<std::string>{
           "\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
           "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xe2\x82g", "\xf0\x9f\x98", "\xf0\x9f\x98g"}) {
    EXPECT_EQ(valid_utf8_prefix(invalid), 0u);
    EXPECT_EQ(valid_utf8_prefix("01234567\xc3\xa9" + invalid), 10u);
    EXPECT_EQ(valid_utf8_prefix("01234567\xc3\xa9" + invalid + "0123456789"), 10u);
  }
}

}  // namespace
}  // namespace millrace::example_writer_test
