#pragma once

#include <cstdint>
#include <string>

#include "millrace/formats/storage/remote/http_message.h"

namespace millrace {

/// Which content of an object an answer is of.
struct ObjectVersion {
  /// Entity tag without quotes (RFC 9110, 8.8.3); empty: the server gives none, or only a weak one, which does not tell
  /// bytes apart.
  std::string tag = {};
  /// Number of the content among those of the object, of Google Cloud Storage; empty: the server gives none. Where it
  /// has one, its tag says less: that is another with new metadata, too.
  std::string generation = {};
  std::string last_modified = {};  ///< as the server writes it; empty: it does not say
  uint64_t size = 0;               ///< bytes
  /// Whether a redirect said it, not who sends the bytes, whose tags are others.
  bool is_linked = false;

  /// `etag 5d41402a, 1234 bytes`.
  [[nodiscard]] std::string to_string() const;
  /// Whether both may be of one content: what one of them does not say is not compared.
  [[nodiscard]] bool may_be(const ObjectVersion& other) const;
};

/// Whether a version, as `to_string` writes it, is of one content alone: of a generation or a strong tag. A date is of
/// all contents of one second.
[[nodiscard]] bool tells_contents_apart(std::string_view version);

/// The tag of an `ETag` field; empty for a weak one, and one with characters that no field of a request may have.
[[nodiscard]] std::string strong_tag(std::string_view field);
/// Adds the condition that an object is still of this version (RFC 9110, 13.1).
void add_condition(HttpRequest& request, const ObjectVersion& pin);
/// What an answer about an object of `size` bytes says of its version.
[[nodiscard]] ObjectVersion version_of(const HttpHead& head, uint64_t size);

}  // namespace millrace
