#include "millrace/ops/sources/text_lines.h"

#include "millrace/formats/text/line_splitter.h"

namespace millrace {

TextLinesOperator::TextLinesOperator(Shards shards, const FileReadOptions& options)
    : FileSourceOperator("text_lines", record_schema(), std::move(shards), options) {}

std::unique_ptr<RecordSplitter> TextLinesOperator::splitter(uint64_t max_record_bytes) const {
  return std::make_unique<LineSplitter>(max_record_bytes);
}

}  // namespace millrace
