#include "millrace/tokenizer/oniguruma.h"

#include <string>

#include <dlfcn.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr const char* kLibrary = "libonig.so.5";

[[noreturn]] void fail() {
  const char* reason = dlerror();
  throw ErrorException(ErrorCode::kIo, std::string("regular expressions need Oniguruma: ") +
                                           (reason != nullptr ? reason : "it cannot be initialized"));
}

template <typename Symbol>
void find(void* library, const char* name, Symbol*& symbol) {
  symbol = reinterpret_cast<Symbol*>(dlsym(library, name));
  if (symbol == nullptr) fail();
}

}  // namespace

Oniguruma::Oniguruma() {
  // RTLD_LOCAL: nobody else finds its symbols. It stays loaded as long as the process.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail();
  find(library, "onig_new", make);
  find(library, "onig_free", free);
  find(library, "onig_search_with_param", search);
  find(library, "onig_region_new", make_region);
  find(library, "onig_region_free", free_region);
  find(library, "onig_new_match_param", make_limits);
  find(library, "onig_free_match_param", free_limits);
  find(library, "onig_initialize_match_param", initialize_limits);
  find(library, "onig_set_retry_limit_in_search_of_match_param", limit_retries);
  find(library, "onig_set_match_stack_limit_size_of_match_param", limit_stack);
  find(library, "onig_error_code_to_str", describe_error);
  find(library, "OnigEncodingUTF8", utf8);
  find(library, "OnigSyntaxRuby", ruby_syntax);
  decltype(&::onig_initialize) initialize = nullptr;
  find(library, "onig_initialize", initialize);
  OnigEncoding encoding = utf8;
  if (initialize(&encoding, 1) != ONIG_NORMAL) fail();
}

const Oniguruma& Oniguruma::loaded() {
  static const Oniguruma functions;
  return functions;
}

}  // namespace millrace
