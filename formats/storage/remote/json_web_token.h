#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// base64 with the letters for URLs, without padding (RFC 4648, 5; RFC 7515, 2).
[[nodiscard]] std::string encode_base64url(std::string_view bytes);

/// The signature of a text by RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, 3.3). `key`: an RSA private key in PEM, without
/// a password, of at least 2,048 bits. Throws `kInvalidArgument` for any other; no message repeats any of it.
[[nodiscard]] std::string sign_rs256(std::string_view text, const std::string& key);

/// A JSON Web Token signed with RS256 (RFC 7519; RFC 7515, 7.1). `claims`: a JSON object; `key_id`: that of `key` for
/// who verifies it, may be empty. Throws as `sign_rs256`.
[[nodiscard]] std::string sign_json_web_token(std::string_view claims, const std::string& key_id,
                                              const std::string& key);

}  // namespace millrace
