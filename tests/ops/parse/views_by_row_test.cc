#include "millrace/ops/parse/views_by_row.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/parse/parse_tensors.h"

namespace millrace::views_by_row_test {
namespace {

constexpr size_t kRecord = size_t{3} << 20;

// One view for each text, the views of one buffer for each list of them.
Column column_of(BufferPool& pool, const std::vector<std::vector<std::string>>& buffers) {
  ColumnBuilder builder(pool, {.name = "message", .dtype = DType::kBytes, .shape = {}});
  for (const auto& texts : buffers) {
    const Buffer buffer = pool.allocate(kRecord);
    auto* place = reinterpret_cast<char*>(buffer->data());
    for (const std::string& text : texts) {
      std::memcpy(place, text.data(), text.size());
      builder.append_view({place, text.size()});
      place += text.size();
    }
    builder.hold(buffer);
  }
  return builder.finish();
}

TEST(ViewsByRow, GiveALargeBufferBackWithItsLastRow) {
  BufferPool pool;
  ViewsByRow views(column_of(pool, {{"a", "b"}, {"c"}, {"d"}}), 1);
  const int64_t buffer = pool.allocate(kRecord)->capacity();
  const int64_t all = pool.bytes_in_use();
  EXPECT_GE(all, 3 * buffer);
  EXPECT_EQ(views[0], "a");
  views.done(0);
  EXPECT_EQ(pool.bytes_in_use(), all) << "the second row is in the same buffer";
  EXPECT_EQ(views[1], "b");
  views.done(1);
  EXPECT_EQ(pool.bytes_in_use(), all - buffer);
  EXPECT_EQ(views[2], "c");
  EXPECT_EQ(views[3], "d");
  views.done(3);
  EXPECT_EQ(pool.bytes_in_use(), all - 3 * buffer);
}

TEST(ViewsByRow, GiveBackAtOnceWhatNoRowPointsInto) {
  BufferPool pool;
  const int64_t buffer = pool.allocate(kRecord)->capacity();
  Column column = column_of(pool, {{"a", "b"}, {"c"}}).slice(2, 1);
  const int64_t all = pool.bytes_in_use();
  const ViewsByRow views(std::move(column), 1);
  EXPECT_EQ(views[0], "c");
  EXPECT_LE(pool.bytes_in_use(), all - buffer);
}

TEST(ViewsByRow, LeaveOthersWhatTheyHold) {
  BufferPool pool;
  const Column column = column_of(pool, {{"a"}, {"b"}});
  const int64_t all = pool.bytes_in_use();
  ViewsByRow(Column(column), 1).done(1);
  EXPECT_EQ(pool.bytes_in_use(), all);
  EXPECT_EQ(column.values<std::string_view>(1)[0], "b");
}

TEST(ViewsByRow, RowsKeepTheirPlacesBehindAnElementWithoutAny) {
  BufferPool pool;
  ColumnBuilder builder(pool, {.name = "message", .dtype = DType::kBytes, .shape = {kVaries}});
  const std::vector<std::string_view> two = {"a", "b"};
  const std::vector<std::string_view> others = {"c", "d"};
  builder.append(std::span<const std::string_view>(two), std::vector<int64_t>{2});
  builder.append_nothing();
  builder.append(std::span<const std::string_view>(others), std::vector<int64_t>{2});
  const ViewsByRow views(builder.finish(), 2);
  EXPECT_EQ(views.size(), 6U);
  EXPECT_EQ(views[1], "b");
  EXPECT_TRUE(views[2].empty());
  EXPECT_EQ(views[4], "c");
}

// A TensorProto of float32 values in `tensor_content`.
std::string message(const std::vector<float>& values) {
  const auto varint = [](uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    return bytes + static_cast<char>(value);
  };
  const std::string size = "\x08" + varint(values.size());
  const std::string shape = "\x12" + varint(size.size()) + size;
  std::string bytes = "\x08\x01";
  bytes += "\x12" + varint(shape.size()) + shape + "\x22" + varint(4 * values.size());
  return bytes.append(reinterpret_cast<const char*>(values.data()), 4 * values.size());
}

// What is no buffer is kept to the end: it sees what is in use then.
class Witness final : public Resource {
 public:
  Witness(const BufferPool& pool, int64_t& in_use) : pool_(pool), in_use_(in_use) {}

 private:
  void release() noexcept override {
    in_use_ = pool_.bytes_in_use();
    delete this;
  }
  const BufferPool& pool_;
  int64_t& in_use_;
};

TEST(ParseTensors, GivesLargeRecordsBackWhileItReadsTheOthers) {
  constexpr int64_t kValues = int64_t{1} << 19;  // 2 MiB
  constexpr size_t kRows = 8;
  BufferPool pool;
  const FeatureSpec feature{.name = "image", .dtype = DType::kBytes, .shape = {}};
  const auto schema = std::make_shared<const Schema>(std::vector{feature});
  BlockBuilder builder(schema, pool);
  for (size_t row = 0; row < kRows; ++row) {
    const std::string text = message(std::vector<float>(kValues, static_cast<float>(row)));
    const Buffer buffer = pool.allocate(text.size());
    std::memcpy(buffer->data(), text.data(), text.size());
    builder.column(0).append_view({reinterpret_cast<const char*>(buffer->data()), text.size()});
    builder.column(0).hold(buffer);
    builder.added_elements(1);
  }
  int64_t in_use_at_the_end = -1;
  builder.column(0).hold(Ref<Resource>(new Witness(pool, in_use_at_the_end)));
  Block records = builder.finish();
  const ParseTensorsOperator parse(
      schema, {std::make_shared<const ParseTensorOperator>(schema, "image", DType::kFloat32, Shape{kValues})});
  const Block parsed = parse.apply(std::move(records), pool);
  ASSERT_TRUE(parsed.errors().empty());
  for (size_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(parsed.column(0).values<float>(row).back(), static_cast<float>(row));
  }
  const int64_t tensor = kValues * static_cast<int64_t>(sizeof(float));
  EXPECT_GT(in_use_at_the_end, 0);
  EXPECT_LT(in_use_at_the_end, (static_cast<int64_t>(kRows) + 2) * tensor) << "the tensors, and one record at most";
}

}  // namespace
}  // namespace millrace::views_by_row_test
