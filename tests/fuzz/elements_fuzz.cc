#include "tests/fuzz/elements_fuzz.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/elements/block_codec.h"
#include "millrace/formats/elements/index.h"
#include "millrace/formats/error.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {

void fuzz_decode_block(std::string_view bytes) {
  const auto schema = [](std::vector<FeatureSpec> features) {
    return std::make_shared<const Schema>(std::move(features));
  };
  const SchemaPtr schemas[] = {
      record_schema(),
      schema({{.name = "a", .dtype = DType::kInt64, .shape = {2}},
              {.name = "b", .dtype = DType::kFloat32, .shape = {kVaries}}}),
      schema({{.name = "c", .dtype = DType::kInt32, .shape = {kVaries, kRagged, 2}}}),
      schema({{.name = "d", .dtype = DType::kBytes, .shape = {kVaries, 3}}}),
  };
  BufferPool pool;
  const Buffer holder = pool.allocate(1);
  for (const SchemaPtr& of : schemas) {
    try {
      const Block block = decode_block(bytes, holder, of, pool, std::make_shared<ShardNames>());
      // What it was made of can be written again.
      BlockEncoder encoder(of);
      for (size_t i = 0; i < block.num_elements(); ++i) encoder.append(block, i, 1);
      (void)encoder.finish();
    } catch (const ErrorException&) {  // refused, as it should be
    }
  }
}

void fuzz_elements_index(std::string_view bytes) {
  const auto read = [](std::string_view content) {
    try {
      const auto index = ElementsIndex::parse("folder", content);
      require(index->serialize() == content);
    } catch (const ErrorException&) {  // refused, as it should be
    }
  };
  read(bytes);
  // After the checksum.
  std::string whole = std::string("millrace elements\n") + std::string(bytes);
  const uint64_t digest = XXH3_64bits(whole.data(), whole.size());
  whole.append(reinterpret_cast<const char*>(&digest), sizeof digest);
  read(whole);
}

}  // namespace millrace::test
