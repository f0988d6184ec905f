#include "tokenizer/decoders/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tokenizer/decoders/metaspace.h"

namespace millrace {
namespace {

class PlainDecoder final : public Decoder {
 public:
  std::string decode(std::span<const std::string_view> tokens) const override {
    return fmt::format("{}", fmt::join(tokens, " "));
  }
};

}  // namespace

std::unique_ptr<const Decoder> read_decoder(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "Metaspace") return std::make_unique<MetaspaceDecoder>(node);
  type.fail(fmt::format("no decoder '{}'; there is Metaspace", name));
}

std::unique_ptr<const Decoder> plain_decoder() { return std::make_unique<PlainDecoder>(); }

}  // namespace millrace
