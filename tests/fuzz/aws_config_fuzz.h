#pragma once

#include <string_view>

namespace millrace::test {

/// Reads any bytes as both of the files that AWS's SDKs share: refused as `kParse`, or read again as it was when it is
/// written in the plainest form.
void fuzz_aws_config(std::string_view bytes);

/// Reads any bytes as what each source of credentials answers: refused as `kParse`, or keys that fit into a field of
/// HTTP. Also as a refusal, and as a time.
void fuzz_aws_credential_answer(std::string_view bytes);

}  // namespace millrace::test
