// The instruction table of the core: how every instruction is encoded, written, classed, and which
// extension it belongs to. Decoder, interpreter, listing, scan and cycle model all read it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::coral {

// Scalar instructions, in the order of the interpreter's jump table.
// clang-format off
#define CORAL_SCALAR_OPERATIONS(X)                                                                 \
  X(lui) X(auipc) X(jal) X(jalr) X(beq) X(bne) X(blt) X(bge) X(bltu) X(bgeu)                       \
  X(lb) X(lh) X(lw) X(lbu) X(lhu) X(sb) X(sh) X(sw)                                                \
  X(addi) X(slti) X(sltiu) X(xori) X(ori) X(andi) X(slli) X(srli) X(srai)                          \
  X(add) X(sub) X(sll) X(slt) X(sltu) X(xor_) X(srl) X(sra) X(or_) X(and_)                         \
  X(fence) X(fence_i) X(ecall) X(ebreak) X(mret) X(wfi) X(mpause)                                  \
  X(csrrw) X(csrrs) X(csrrc) X(csrrwi) X(csrrsi) X(csrrci)                                         \
  X(mul) X(mulh) X(mulhsu) X(mulhu) X(div) X(divu) X(rem) X(remu)                                  \
  X(andn) X(orn) X(xnor) X(clz) X(ctz) X(cpop) X(max) X(maxu) X(min) X(minu)                       \
  X(sext_b) X(sext_h) X(zext_h) X(rol) X(ror) X(rori) X(orc_b) X(rev8)                             \
  X(sh1add) X(sh2add) X(sh3add)                                                                    \
  X(flw) X(fsw) X(fmadd) X(fmsub) X(fnmsub) X(fnmadd)                                              \
  X(fadd) X(fsub) X(fmul) X(fdiv) X(fsqrt) X(fsgnj) X(fsgnjn) X(fsgnjx) X(fmin) X(fmax)            \
  X(fcvt_w) X(fcvt_wu) X(fmv_x) X(feq) X(flt) X(fle) X(fclass) X(fcvt_s) X(fcvt_su) X(fmv_f)       \
  X(vsetvli) X(vsetivli) X(vsetvl)                                                                 \
  /* what decoding makes of other words */                                                         \
  X(vector) X(illegal) X(fetch_end) X(branch_far) X(jal_far) X(sp_write)
// clang-format on

// Vector instructions. One row is one meaning; the operand kinds (.vv, .vx, ...) share it.
// clang-format off
#define CORAL_VECTOR_OPERATIONS(X)                                                                 \
  X(vadd) X(vsub) X(vrsub) X(vminu) X(vmin) X(vmaxu) X(vmax) X(vand) X(vor) X(vxor)                \
  X(vrgather) X(vrgatherei16) X(vslideup) X(vslidedown) X(vslide1up) X(vslide1down) X(vcompress)   \
  X(vadc) X(vmadc) X(vsbc) X(vmsbc) X(vmerge) X(vmv_v)                                             \
  X(vmseq) X(vmsne) X(vmsltu) X(vmslt) X(vmsleu) X(vmsle) X(vmsgtu) X(vmsgt)                       \
  X(vsaddu) X(vsadd) X(vssubu) X(vssub) X(vaaddu) X(vaadd) X(vasubu) X(vasub)                      \
  X(vsll) X(vsrl) X(vsra) X(vssrl) X(vssra) X(vsmul) X(vnsrl) X(vnsra) X(vnclipu) X(vnclip)        \
  X(vmvr) X(vwredsumu) X(vwredsum)                                                                 \
  X(vredsum) X(vredand) X(vredor) X(vredxor) X(vredminu) X(vredmin) X(vredmaxu) X(vredmax)         \
  X(vmv_x_s) X(vmv_s_x) X(vcpop) X(vfirst)                                                         \
  X(vzext2) X(vzext4) X(vsext2) X(vsext4) X(vmsbf) X(vmsof) X(vmsif) X(viota) X(vid)               \
  X(vmandn) X(vmand) X(vmor) X(vmxor) X(vmorn) X(vmnand) X(vmnor) X(vmxnor)                        \
  X(vdivu) X(vdiv) X(vremu) X(vrem) X(vmulhu) X(vmul) X(vmulhsu) X(vmulh)                          \
  X(vmadd) X(vnmsub) X(vmacc) X(vnmsac)                                                            \
  X(vwaddu) X(vwadd) X(vwsubu) X(vwsub) X(vwaddu_w) X(vwadd_w) X(vwsubu_w) X(vwsub_w)              \
  X(vwmulu) X(vwmulsu) X(vwmul) X(vwmaccu) X(vwmacc) X(vwmaccus) X(vwmaccsu)                       \
  X(vfadd) X(vfsub) X(vfrsub) X(vfmul) X(vfdiv) X(vfrdiv) X(vfmin) X(vfmax)                        \
  X(vfsgnj) X(vfsgnjn) X(vfsgnjx) X(vfmerge) X(vfmv_v) X(vfmv_f_s) X(vfmv_s_f)                     \
  X(vmfeq) X(vmfle) X(vmflt) X(vmfne) X(vmfgt) X(vmfge)                                            \
  X(vfredusum) X(vfredosum) X(vfredmin) X(vfredmax) X(vfslide1up) X(vfslide1down)                  \
  X(vfmadd) X(vfnmadd) X(vfmsub) X(vfnmsub) X(vfmacc) X(vfnmacc) X(vfmsac) X(vfnmsac)              \
  X(vfcvt_xu_f) X(vfcvt_x_f) X(vfcvt_f_xu) X(vfcvt_f_x) X(vfcvt_rtz_xu_f) X(vfcvt_rtz_x_f)         \
  X(vfncvt_xu_f) X(vfncvt_x_f) X(vfncvt_rtz_xu_f) X(vfncvt_rtz_x_f) X(vfwcvt_f_xu) X(vfwcvt_f_x)   \
  X(vfsqrt) X(vfrsqrt7) X(vfrec7) X(vfclass)                                                       \
  /* memory */                                                                                     \
  X(vload) X(vstore) X(vload_mask) X(vstore_mask) X(vload_whole) X(vstore_whole) X(vload_first)    \
  X(vload_strided) X(vstore_strided) X(vload_indexed) X(vstore_indexed)
// clang-format on

enum class Operation : uint16_t {
#define X(name) name,
  CORAL_SCALAR_OPERATIONS(X) CORAL_VECTOR_OPERATIONS(X)
#undef X
      count
};

enum class Extension : uint8_t { base, m, f, zbb, zba, zicsr, vector, vector_float };

// Classes for the histogram and the cycle model.
enum class Class : uint8_t {
  alu,
  branch,
  jump,
  multiply,
  divide,
  load,
  store,
  csr,
  fence,
  system,
  float_arithmetic,
  float_divide,
  float_to_integer,
  integer_to_float,
  float_load,
  float_store,
  vset,
  vector_alu,
  vector_multiply,
  vector_divide,
  vector_compare,
  vector_widen,
  vector_narrow,
  vector_extend,
  vector_reduce,
  vector_permute,
  vector_to_scalar,
  vector_mask_to_scalar,
  vector_float,
  vector_load,
  vector_store,
  count
};
const char* class_name(Class);

// How operands are written in a listing.
enum class Format : uint8_t {
  r,
  i,
  load,
  store,
  branch,
  upper,
  jump,
  shift,
  unary,
  csr,
  csr_immediate,
  none,
  float_r,
  float_r4,
  float_unary,
  float_load,
  float_store,
  float_compare,
  float_to_x,
  x_to_float,
  vsetvli,
  vsetivli,
  vsetvl,
  vector,
  vector_memory
};

// Kinds of vector operands, as funct3 of OP-V says.
enum Kind : uint8_t { ivv = 0, fvv = 1, mvv = 2, ivi = 3, ivx = 4, fvf = 5, mvx = 6 };

struct Row {
  Operation operation;
  const char* name;
  uint32_t mask, match;
  Format format;
  Class type;
  Extension extension;
};

const std::vector<Row>& rows();
// The row of a word, or null. Extensions are not looked at.
const Row* find_row(uint32_t word);

struct Features {
  bool zba = false;
  bool vector = true;
  bool vector_float = false;
  bool allows(Extension extension) const {
    switch (extension) {
      case Extension::zba:
        return zba;
      case Extension::vector:
        return vector;
      case Extension::vector_float:
        return vector && vector_float;
      default:
        return true;
    }
  }
};

// One decoded instruction; `count` is how often it ran.
struct Decoded {
  const void* handler = nullptr;
  uint64_t count = 0;
  int32_t immediate = 0;
  uint32_t word = 0;
  uint8_t rd = 0, rs1 = 0, rs2 = 0, rs3 = 0;
  Operation operation = Operation::illegal;  // what the word means
  Class type = Class::system;
  uint8_t bytes = 0;  // of a scalar load or store
};

// Whether instructions of a class write a scalar integer register.
bool writes_integer(Class);

// Registers 0 as destination become 32, a place nobody reads.
Decoded decode(uint32_t word, const Features& features);

}  // namespace tilewright::coral
