#include "tests/fuzz/corpus.h"

#include "tests/fuzz/definition_fuzz.h"
#include "tests/fuzz/elements_fuzz.h"
#include "tests/fuzz/example_parser_fuzz.h"
#include "tests/fuzz/frame_table_fuzz.h"
#include "tests/fuzz/image_fuzz.h"
#include "tests/fuzz/inflate_fuzz.h"
#include "tests/fuzz/pipeline_state_fuzz.h"
#include "tests/fuzz/record_reader_fuzz.h"
#include "tests/fuzz/record_splitter_fuzz.h"
#include "tests/fuzz/safetensors_fuzz.h"
#include "tests/fuzz/shard_index_fuzz.h"
#include "tests/fuzz/shard_reader_fuzz.h"
#include "tests/fuzz/zstd_unpacker_fuzz.h"
#ifdef MILLRACE_FUZZ_REMOTE
#include "tests/fuzz/answer_head_fuzz.h"
#include "tests/fuzz/aws_config_fuzz.h"
#include "tests/fuzz/google_fuzz.h"
#include "tests/fuzz/object_store_fuzz.h"
#endif
#ifdef MILLRACE_FUZZ_TOKENIZER
#include "tests/fuzz/tokenizer_fuzz.h"
#endif

namespace millrace::test {
namespace {

INSTANTIATE_TEST_SUITE_P(
    , Corpus,
    ::testing::Values(Target{"record_reader", fuzz_record_reader, 3}, Target{"inflater", fuzz_inflater, 2},
                      Target{"seek_points", fuzz_seek_points, 6}, Target{"zstd_unpacker", fuzz_zstd_unpacker, 4},
                      Target{"frame_table", fuzz_frame_table, 2}, Target{"shard_index", fuzz_shard_index, 3},
                      Target{"shard_reader", fuzz_shard_reader, 3}, Target{"damaged_shard", fuzz_damaged_shard, 3},
                      Target{"example_parser", fuzz_example_parser, 3},
                      Target{"pipeline_state", fuzz_pipeline_state, 3}, Target{"line_splitter", fuzz_line_splitter, 2},
                      Target{"fixed_length_splitter", fuzz_fixed_length_splitter, 2}, Target{"csv", fuzz_csv, 3},
                      Target{"elements_block", fuzz_decode_block, 4}, Target{"elements_index", fuzz_elements_index, 2},
                      Target{"definition_text", fuzz_definition_text, 3},
                      Target{"definition_json", fuzz_definition_json, 3}, Target{"safetensors", fuzz_safetensors, 4},
                      Target{"image", fuzz_image, 12}),
    [](const auto& target) { return target.param.name; });

#ifdef MILLRACE_FUZZ_REMOTE
INSTANTIATE_TEST_SUITE_P(OfObjectStores, Corpus,
                         ::testing::Values(Target{"s3_page", fuzz_s3_page, 3}, Target{"s3_error", fuzz_s3_error, 2},
                                           Target{"s3_uploads", fuzz_s3_uploads, 3},
                                           Target{"object_url", fuzz_object_url, 3},
                                           Target{"answer_head", fuzz_answer_head, 12},
                                           Target{"aws_config", fuzz_aws_config, 3},
                                           Target{"aws_credential_answer", fuzz_aws_credential_answer, 5},
                                           Target{"google_credentials", fuzz_google_credentials, 11},
                                           Target{"gcs_list_page", fuzz_gcs_list_page, 3}),
                         [](const auto& target) { return target.param.name; });
#endif

#ifdef MILLRACE_FUZZ_TOKENIZER
INSTANTIATE_TEST_SUITE_P(OfTokenizers, Corpus,
                         ::testing::Values(Target{"tokenizer_file", fuzz_tokenizer_file, 7},
                                           Target{"tokenizer_text", fuzz_tokenizer_text, 3}),
                         [](const auto& target) { return target.param.name; });
#endif

}  // namespace
}  // namespace millrace::test
