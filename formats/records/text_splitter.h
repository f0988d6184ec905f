#pragma once

#include <string>
#include <utility>

#include "millrace/formats/records/record_splitter.h"

namespace millrace {

/// A splitter of text files, whose beginning may say that nothing in them can be read as it should: another encoding
/// than UTF-8.
class TextSplitter : public RecordSplitter {
 public:
  /// Whether what `cut` refused last is the whole file. It is not to be passed.
  bool refuses_file() const { return refuses_file_; }

 protected:
  Error refuse_file(std::string message) {
    refuses_file_ = true;
    return {.code = ErrorCode::kParse, .message = std::move(message)};
  }

 private:
  bool refuses_file_ = false;
};

}  // namespace millrace
