#include "benchmarks/floor/record_writer.h"

#include <algorithm>

namespace millrace {
namespace {

class RecordBatchWriter final : public BatchWriter {
 public:
  void write(const ScheduledBatch&, std::span<const std::string_view> records, FloorBatch& out) override {
    const int64_t rows = static_cast<int64_t>(records.size());
    out.begin_column(0, {&rows, 1});
    std::copy(records.begin(), records.end(), out.values<std::string_view>(0));
  }
};

}  // namespace

BatchWriting record_writing() {
  return {record_schema(), [] { return std::make_unique<RecordBatchWriter>(); }};
}

}  // namespace millrace
