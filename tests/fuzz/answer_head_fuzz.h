#pragma once

#include <string_view>

namespace millrace::test {

/// Takes any bytes for the answer of a server, head and body, to each attempt: of a read of an object by HTTP, from S3
/// and from Google Cloud Storage, and of a part of an upload to the latter. Each comes to an end once, in time: bytes
/// where they belong and the version of what they are of, or a short error. Secrets go only to who may see them.
void fuzz_answer_head(std::string_view bytes);

}  // namespace millrace::test
