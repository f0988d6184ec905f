#include "millrace/formats/example/tensor_writer.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/tensor_message.h"

namespace millrace::tensor_writer_test {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

TEST(WriteTensor, WritesWhatSerializeTensorWrites) {
  // tf.io.serialize_tensor of tf.constant([1.0, 2.0]), tf.constant(1.0) and tf.zeros([0, 3]).
  EXPECT_EQ(write_tensor(std::vector<float>{1, 2}, {2}),
            "\x08\x01\x12\x04\x12\x02\x08\x02\"\x08\x00\x00\x80?\x00\x00\x00@"s);
  EXPECT_EQ(write_tensor(std::vector<float>{1}, {}), "\x08\x01\x12\x00\"\x04\x00\x00\x80?"s);
  EXPECT_EQ(write_tensor({}, {0, 3}), "\x08\x01\x12\x06\x12\x00\x12\x02\x08\x03"s);
}

TEST(WriteTensor, IsReadBackBitForBit) {
  BufferPool pool;
  for (const Shape& shape : {Shape{3}, Shape{5, 200, 3}, Shape{1, 1, 1, 1}}) {
    std::vector<float> values(static_cast<size_t>(num_values(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7 - 3;
    const std::string message = write_tensor(values, shape);
    const TensorMessage tensor = TensorMessage::read(message, pool);
    EXPECT_EQ(tensor.type_name(), "float32");
    EXPECT_EQ(tensor.shape(), shape);
    std::vector<float> read(values.size());
    tensor.copy_to(DType::kFloat32, reinterpret_cast<std::byte*>(read.data()));
    EXPECT_EQ(read, values);
  }
}

TEST(WriteTensor, RefusesAnotherNumberOfValues) {
  const auto refusal = [](const Shape& shape) -> std::string {
    try {
      (void)write_tensor(std::vector<float>{1, 2, 3, 4}, shape);
      return "none";
    } catch (const ErrorException& exception) {
      return exception.what();
    }
  };
  EXPECT_THAT(refusal({5}), HasSubstr("invalid_argument: 4 values for a tensor of shape [5]"));
  EXPECT_THAT(refusal({-2, -2}), HasSubstr("4 values for a tensor of shape"));
}

}  // namespace
}  // namespace millrace::tensor_writer_test
