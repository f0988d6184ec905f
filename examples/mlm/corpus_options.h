#pragma once

#include "examples/mlm/text_corpus.h"

namespace boost::program_options {
class options_description;
}

namespace millrace {

/// Adds `--text FILES...` and `--invalid-utf8 refuse|replace`, which fill `options` when the command line is parsed.
void add_corpus_options(boost::program_options::options_description& description, CorpusOptions& options);

}  // namespace millrace
