#include "millrace/tokenizer/decoders/decoder.h"

#include <fmt/format.h>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/decoders/bpe_decoder.h"
#include "millrace/tokenizer/decoders/byte_fallback.h"
#include "millrace/tokenizer/decoders/byte_level.h"
#include "millrace/tokenizer/decoders/ctc.h"
#include "millrace/tokenizer/decoders/fuse.h"
#include "millrace/tokenizer/decoders/metaspace.h"
#include "millrace/tokenizer/decoders/replace.h"
#include "millrace/tokenizer/decoders/sequence.h"
#include "millrace/tokenizer/decoders/strip.h"
#include "millrace/tokenizer/decoders/word_piece.h"

namespace millrace {

std::unique_ptr<const Decoder> read_decoder(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "Metaspace") return std::make_unique<MetaspaceDecoder>(node);
  if (name == "ByteLevel") return std::make_unique<ByteLevelDecoder>(node);
  if (name == "Replace") return std::make_unique<ReplaceDecoder>(node);
  if (name == "Strip") return std::make_unique<StripDecoder>(node);
  if (name == "Fuse") return std::make_unique<FuseDecoder>(node);
  if (name == "ByteFallback") return std::make_unique<ByteFallbackDecoder>(node);
  if (name == "Sequence") return std::make_unique<DecoderSequence>(node);
  if (name == "WordPiece") return std::make_unique<WordPieceDecoder>(node);
  if (name == "BPEDecoder") return std::make_unique<BpeDecoder>(node);
  if (name == "CTC") return std::make_unique<CtcDecoder>(node);
  type.fail(
      fmt::format("no decoder '{}'; there are BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, "
                  "Sequence, Strip and WordPiece",
                  excerpt(name)));
}

}  // namespace millrace
