#include "tests/formats/storage/remote/certificate.h"

#include <stdexcept>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace millrace::test {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("OpenSSL makes no ") + what);
}

template <typename Write>
std::string pem(Write write) {
  const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
  require(write(bio.get()) == 1, "PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}
std::string pem_of(X509* certificate) {
  return pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1, "extension");
}

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& name)
    : key_(EVP_EC_gen("P-256")), own_(sign(key_.get(), name, {.name = ""})) {}

CertificateAuthority::Signed CertificateAuthority::sign(EVP_PKEY* key, const std::string& subject,
                                                        const CertificateOptions& options) const {
  Signed made(X509_new());
  require(key != nullptr && made != nullptr, "key");
  static long number = 0;
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++number);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), std::chrono::seconds(options.begins).count());
  X509_gmtime_adj(X509_getm_notAfter(made.get()), std::chrono::seconds(options.ends).count());
  X509_set_pubkey(made.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  X509* const issuer = own_ == nullptr ? made.get() : own_.get();
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer));
  if (options.name.empty()) {
    extend(made.get(), issuer, NID_basic_constraints, "critical,CA:TRUE");
    extend(made.get(), issuer, NID_key_usage, "critical,keyCertSign");
  } else {
    extend(made.get(), issuer, NID_subject_alt_name, options.name);
  }
  require(X509_sign(made.get(), key_.get(), EVP_sha256()) > 0, "signature");
  return made;
}

std::string CertificateAuthority::certificate() const { return pem_of(own_.get()); }

Certificate CertificateAuthority::issue(const CertificateOptions& options) const {
  const Key key(EVP_EC_gen("P-256"));
  return {.certificate = pem_of(sign(key.get(), "a server of the test", options).get()),
          .private_key = pem([&](BIO* bio) {
            return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace millrace::test
