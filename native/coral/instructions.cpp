#include "instructions.hpp"

#include <array>

namespace tilewright::coral {
namespace {

using O = Operation;
using F = Format;
using C = Class;
using E = Extension;

constexpr uint32_t kOpcode = 0x7f, kFunct3 = 0x707f, kFunct7 = 0xfe00707f, kAll = 0xffffffff;

constexpr uint32_t r_match(uint32_t opcode, uint32_t funct3, uint32_t funct7) {
  return opcode | funct3 << 12 | funct7 << 25;
}

Row reg(O operation, const char* name, uint32_t funct7, uint32_t funct3, C type, E extension) {
  return {operation, name, kFunct7, r_match(0x33, funct3, funct7), F::r, type, extension};
}
Row imm(O operation, const char* name, uint32_t funct3) {
  return {operation, name, kFunct3, 0x13 | funct3 << 12, F::i, C::alu, E::base};
}
Row shift(O operation, const char* name, uint32_t funct7, uint32_t funct3, E extension) {
  return {operation, name, kFunct7, r_match(0x13, funct3, funct7), F::shift, C::alu, extension};
}
Row unary(O operation, const char* name, uint32_t funct12, uint32_t funct3) {
  return {operation, name, 0xfff0707f, 0x13 | funct3 << 12 | funct12 << 20, F::unary, C::alu, E::zbb};
}
Row fp(O operation, const char* name, uint32_t funct7, F format, C type, int funct3 = -1, int rs2 = -1) {
  uint32_t mask = 0xfe00007f, match = 0x53 | funct7 << 25;
  if (funct3 >= 0) mask |= 0x7000, match |= static_cast<uint32_t>(funct3) << 12;
  if (rs2 >= 0) mask |= 0x1f00000, match |= static_cast<uint32_t>(rs2) << 20;
  return {operation, name, mask, match, format, type, E::f};
}

void add_scalar(std::vector<Row>& t) {
  t.push_back({O::lui, "lui", kOpcode, 0x37, F::upper, C::alu, E::base});
  t.push_back({O::auipc, "auipc", kOpcode, 0x17, F::upper, C::alu, E::base});
  t.push_back({O::jal, "jal", kOpcode, 0x6f, F::jump, C::jump, E::base});
  t.push_back({O::jalr, "jalr", kFunct3, 0x67, F::load, C::jump, E::base});
  const std::pair<O, const char*> branches[] = {{O::beq, "beq"}, {O::bne, "bne"}, {O::illegal, ""},  {O::illegal, ""},
                                                {O::blt, "blt"}, {O::bge, "bge"}, {O::bltu, "bltu"}, {O::bgeu, "bgeu"}};
  for (uint32_t f = 0; f < 8; ++f)
    if (f != 2 && f != 3)
      t.push_back({branches[f].first, branches[f].second, kFunct3, 0x63 | f << 12, F::branch, C::branch, E::base});
  t.push_back({O::lb, "lb", kFunct3, 0x0003, F::load, C::load, E::base});
  t.push_back({O::lh, "lh", kFunct3, 0x1003, F::load, C::load, E::base});
  t.push_back({O::lw, "lw", kFunct3, 0x2003, F::load, C::load, E::base});
  t.push_back({O::lbu, "lbu", kFunct3, 0x4003, F::load, C::load, E::base});
  t.push_back({O::lhu, "lhu", kFunct3, 0x5003, F::load, C::load, E::base});
  t.push_back({O::sb, "sb", kFunct3, 0x0023, F::store, C::store, E::base});
  t.push_back({O::sh, "sh", kFunct3, 0x1023, F::store, C::store, E::base});
  t.push_back({O::sw, "sw", kFunct3, 0x2023, F::store, C::store, E::base});
  t.push_back(imm(O::addi, "addi", 0));
  t.push_back(imm(O::slti, "slti", 2));
  t.push_back(imm(O::sltiu, "sltiu", 3));
  t.push_back(imm(O::xori, "xori", 4));
  t.push_back(imm(O::ori, "ori", 6));
  t.push_back(imm(O::andi, "andi", 7));
  t.push_back(shift(O::slli, "slli", 0x00, 1, E::base));
  t.push_back(shift(O::srli, "srli", 0x00, 5, E::base));
  t.push_back(shift(O::srai, "srai", 0x20, 5, E::base));
  t.push_back(shift(O::rori, "rori", 0x30, 5, E::zbb));
  t.push_back(reg(O::add, "add", 0x00, 0, C::alu, E::base));
  t.push_back(reg(O::sub, "sub", 0x20, 0, C::alu, E::base));
  t.push_back(reg(O::sll, "sll", 0x00, 1, C::alu, E::base));
  t.push_back(reg(O::slt, "slt", 0x00, 2, C::alu, E::base));
  t.push_back(reg(O::sltu, "sltu", 0x00, 3, C::alu, E::base));
  t.push_back(reg(O::xor_, "xor", 0x00, 4, C::alu, E::base));
  t.push_back(reg(O::srl, "srl", 0x00, 5, C::alu, E::base));
  t.push_back(reg(O::sra, "sra", 0x20, 5, C::alu, E::base));
  t.push_back(reg(O::or_, "or", 0x00, 6, C::alu, E::base));
  t.push_back(reg(O::and_, "and", 0x00, 7, C::alu, E::base));
  const std::pair<O, const char*> products[] = {{O::mul, "mul"},     {O::mulh, "mulh"}, {O::mulhsu, "mulhsu"},
                                                {O::mulhu, "mulhu"}, {O::div, "div"},   {O::divu, "divu"},
                                                {O::rem, "rem"},     {O::remu, "remu"}};
  for (uint32_t f = 0; f < 8; ++f)
    t.push_back(reg(products[f].first, products[f].second, 0x01, f, f < 4 ? C::multiply : C::divide, E::m));
  t.push_back(reg(O::andn, "andn", 0x20, 7, C::alu, E::zbb));
  t.push_back(reg(O::orn, "orn", 0x20, 6, C::alu, E::zbb));
  t.push_back(reg(O::xnor, "xnor", 0x20, 4, C::alu, E::zbb));
  t.push_back(reg(O::min, "min", 0x05, 4, C::alu, E::zbb));
  t.push_back(reg(O::minu, "minu", 0x05, 5, C::alu, E::zbb));
  t.push_back(reg(O::max, "max", 0x05, 6, C::alu, E::zbb));
  t.push_back(reg(O::maxu, "maxu", 0x05, 7, C::alu, E::zbb));
  t.push_back(reg(O::rol, "rol", 0x30, 1, C::alu, E::zbb));
  t.push_back(reg(O::ror, "ror", 0x30, 5, C::alu, E::zbb));
  t.push_back({O::zext_h, "zext.h", 0xfff0707f, 0x08004033, F::unary, C::alu, E::zbb});
  t.push_back(unary(O::clz, "clz", 0x600, 1));
  t.push_back(unary(O::ctz, "ctz", 0x601, 1));
  t.push_back(unary(O::cpop, "cpop", 0x602, 1));
  t.push_back(unary(O::sext_b, "sext.b", 0x604, 1));
  t.push_back(unary(O::sext_h, "sext.h", 0x605, 1));
  t.push_back(unary(O::orc_b, "orc.b", 0x287, 5));
  t.push_back(unary(O::rev8, "rev8", 0x698, 5));
  t.push_back(reg(O::sh1add, "sh1add", 0x10, 2, C::alu, E::zba));
  t.push_back(reg(O::sh2add, "sh2add", 0x10, 4, C::alu, E::zba));
  t.push_back(reg(O::sh3add, "sh3add", 0x10, 6, C::alu, E::zba));
  t.push_back({O::fence, "fence", kFunct3, 0x000f, F::none, C::fence, E::base});
  t.push_back({O::fence_i, "fence.i", kFunct3, 0x100f, F::none, C::fence, E::base});
  t.push_back({O::ecall, "ecall", kAll, 0x00000073, F::none, C::system, E::base});
  t.push_back({O::ebreak, "ebreak", kAll, 0x00100073, F::none, C::system, E::base});
  t.push_back({O::mret, "mret", kAll, 0x30200073, F::none, C::system, E::base});
  t.push_back({O::wfi, "wfi", kAll, 0x10500073, F::none, C::system, E::base});
  t.push_back({O::mpause, "mpause", kAll, 0x08000073, F::none, C::system, E::base});
  const std::pair<O, const char*> csrs[] = {{O::csrrw, "csrrw"},   {O::csrrs, "csrrs"},   {O::csrrc, "csrrc"},
                                            {O::csrrwi, "csrrwi"}, {O::csrrsi, "csrrsi"}, {O::csrrci, "csrrci"}};
  for (uint32_t k = 0; k < 6; ++k)
    t.push_back({csrs[k].first, csrs[k].second, kFunct3, 0x73 | (k < 3 ? k + 1 : k + 2) << 12,
                 k < 3 ? F::csr : F::csr_immediate, C::csr, E::zicsr});
}

void add_float(std::vector<Row>& t) {
  t.push_back({O::flw, "flw", kFunct3, 0x2007, F::float_load, C::float_load, E::f});
  t.push_back({O::fsw, "fsw", kFunct3, 0x2027, F::float_store, C::float_store, E::f});
  t.push_back({O::fmadd, "fmadd.s", 0x0600007f, 0x43, F::float_r4, C::float_arithmetic, E::f});
  t.push_back({O::fmsub, "fmsub.s", 0x0600007f, 0x47, F::float_r4, C::float_arithmetic, E::f});
  t.push_back({O::fnmsub, "fnmsub.s", 0x0600007f, 0x4b, F::float_r4, C::float_arithmetic, E::f});
  t.push_back({O::fnmadd, "fnmadd.s", 0x0600007f, 0x4f, F::float_r4, C::float_arithmetic, E::f});
  t.push_back(fp(O::fadd, "fadd.s", 0x00, F::float_r, C::float_arithmetic));
  t.push_back(fp(O::fsub, "fsub.s", 0x04, F::float_r, C::float_arithmetic));
  t.push_back(fp(O::fmul, "fmul.s", 0x08, F::float_r, C::float_arithmetic));
  t.push_back(fp(O::fdiv, "fdiv.s", 0x0c, F::float_r, C::float_divide));
  t.push_back(fp(O::fsqrt, "fsqrt.s", 0x2c, F::float_unary, C::float_divide, -1, 0));
  t.push_back(fp(O::fsgnj, "fsgnj.s", 0x10, F::float_r, C::float_arithmetic, 0));
  t.push_back(fp(O::fsgnjn, "fsgnjn.s", 0x10, F::float_r, C::float_arithmetic, 1));
  t.push_back(fp(O::fsgnjx, "fsgnjx.s", 0x10, F::float_r, C::float_arithmetic, 2));
  t.push_back(fp(O::fmin, "fmin.s", 0x14, F::float_r, C::float_arithmetic, 0));
  t.push_back(fp(O::fmax, "fmax.s", 0x14, F::float_r, C::float_arithmetic, 1));
  t.push_back(fp(O::fcvt_w, "fcvt.w.s", 0x60, F::float_to_x, C::float_to_integer, -1, 0));
  t.push_back(fp(O::fcvt_wu, "fcvt.wu.s", 0x60, F::float_to_x, C::float_to_integer, -1, 1));
  t.push_back(fp(O::fmv_x, "fmv.x.w", 0x70, F::float_to_x, C::float_to_integer, 0, 0));
  t.push_back(fp(O::fclass, "fclass.s", 0x70, F::float_to_x, C::float_to_integer, 1, 0));
  t.push_back(fp(O::fle, "fle.s", 0x50, F::float_compare, C::float_to_integer, 0));
  t.push_back(fp(O::flt, "flt.s", 0x50, F::float_compare, C::float_to_integer, 1));
  t.push_back(fp(O::feq, "feq.s", 0x50, F::float_compare, C::float_to_integer, 2));
  t.push_back(fp(O::fcvt_s, "fcvt.s.w", 0x68, F::x_to_float, C::integer_to_float, -1, 0));
  t.push_back(fp(O::fcvt_su, "fcvt.s.wu", 0x68, F::x_to_float, C::integer_to_float, -1, 1));
  t.push_back(fp(O::fmv_f, "fmv.w.x", 0x78, F::x_to_float, C::integer_to_float, 0, 0));
}

// Which operand kinds exist, as letters in the order of funct3.
constexpr uint32_t kVV = 1 << ivv, kVI = 1 << ivi, kVX = 1 << ivx, kMV = 1 << mvv, kMX = 1 << mvx, kFV = 1 << fvv,
                   kFF = 1 << fvf;

struct VectorRow {
  O operation;
  const char* name;
  uint32_t funct6;
  uint32_t kinds;
  C type;
  int vm = -1;   // a fixed mask bit
  int vs1 = -1;  // a fixed first source, which tells apart instructions of one funct6
  int vs2 = -1;
};

const VectorRow kVectorRows[] = {
    {O::vadd, "vadd", 0x00, kVV | kVX | kVI, C::vector_alu},
    {O::vsub, "vsub", 0x02, kVV | kVX, C::vector_alu},
    {O::vrsub, "vrsub", 0x03, kVX | kVI, C::vector_alu},
    {O::vminu, "vminu", 0x04, kVV | kVX, C::vector_alu},
    {O::vmin, "vmin", 0x05, kVV | kVX, C::vector_alu},
    {O::vmaxu, "vmaxu", 0x06, kVV | kVX, C::vector_alu},
    {O::vmax, "vmax", 0x07, kVV | kVX, C::vector_alu},
    {O::vand, "vand", 0x09, kVV | kVX | kVI, C::vector_alu},
    {O::vor, "vor", 0x0a, kVV | kVX | kVI, C::vector_alu},
    {O::vxor, "vxor", 0x0b, kVV | kVX | kVI, C::vector_alu},
    {O::vrgather, "vrgather", 0x0c, kVV | kVX | kVI, C::vector_permute},
    {O::vrgatherei16, "vrgatherei16", 0x0e, kVV, C::vector_permute},
    {O::vslideup, "vslideup", 0x0e, kVX | kVI, C::vector_permute},
    {O::vslidedown, "vslidedown", 0x0f, kVX | kVI, C::vector_permute},
    {O::vadc, "vadc", 0x10, kVV | kVX | kVI, C::vector_alu, 0},
    {O::vmadc, "vmadc", 0x11, kVV | kVX | kVI, C::vector_compare},
    {O::vsbc, "vsbc", 0x12, kVV | kVX, C::vector_alu, 0},
    {O::vmsbc, "vmsbc", 0x13, kVV | kVX, C::vector_compare},
    {O::vmerge, "vmerge", 0x17, kVV | kVX | kVI, C::vector_alu, 0},
    {O::vmv_v, "vmv.v", 0x17, kVV | kVX | kVI, C::vector_alu, 1, -1, 0},
    {O::vmseq, "vmseq", 0x18, kVV | kVX | kVI, C::vector_compare},
    {O::vmsne, "vmsne", 0x19, kVV | kVX | kVI, C::vector_compare},
    {O::vmsltu, "vmsltu", 0x1a, kVV | kVX, C::vector_compare},
    {O::vmslt, "vmslt", 0x1b, kVV | kVX, C::vector_compare},
    {O::vmsleu, "vmsleu", 0x1c, kVV | kVX | kVI, C::vector_compare},
    {O::vmsle, "vmsle", 0x1d, kVV | kVX | kVI, C::vector_compare},
    {O::vmsgtu, "vmsgtu", 0x1e, kVX | kVI, C::vector_compare},
    {O::vmsgt, "vmsgt", 0x1f, kVX | kVI, C::vector_compare},
    {O::vsaddu, "vsaddu", 0x20, kVV | kVX | kVI, C::vector_alu},
    {O::vsadd, "vsadd", 0x21, kVV | kVX | kVI, C::vector_alu},
    {O::vssubu, "vssubu", 0x22, kVV | kVX, C::vector_alu},
    {O::vssub, "vssub", 0x23, kVV | kVX, C::vector_alu},
    {O::vsll, "vsll", 0x25, kVV | kVX | kVI, C::vector_alu},
    {O::vsmul, "vsmul", 0x27, kVV | kVX, C::vector_multiply},
    {O::vmvr, "vmv1r", 0x27, kVI, C::vector_alu, 1, 0},
    {O::vmvr, "vmv2r", 0x27, kVI, C::vector_alu, 1, 1},
    {O::vmvr, "vmv4r", 0x27, kVI, C::vector_alu, 1, 3},
    {O::vmvr, "vmv8r", 0x27, kVI, C::vector_alu, 1, 7},
    {O::vsrl, "vsrl", 0x28, kVV | kVX | kVI, C::vector_alu},
    {O::vsra, "vsra", 0x29, kVV | kVX | kVI, C::vector_alu},
    {O::vssrl, "vssrl", 0x2a, kVV | kVX | kVI, C::vector_alu},
    {O::vssra, "vssra", 0x2b, kVV | kVX | kVI, C::vector_alu},
    {O::vnsrl, "vnsrl", 0x2c, kVV | kVX | kVI, C::vector_narrow},
    {O::vnsra, "vnsra", 0x2d, kVV | kVX | kVI, C::vector_narrow},
    {O::vnclipu, "vnclipu", 0x2e, kVV | kVX | kVI, C::vector_narrow},
    {O::vnclip, "vnclip", 0x2f, kVV | kVX | kVI, C::vector_narrow},
    {O::vwredsumu, "vwredsumu", 0x30, kVV, C::vector_reduce},
    {O::vwredsum, "vwredsum", 0x31, kVV, C::vector_reduce},

    {O::vredsum, "vredsum", 0x00, kMV, C::vector_reduce},
    {O::vredand, "vredand", 0x01, kMV, C::vector_reduce},
    {O::vredor, "vredor", 0x02, kMV, C::vector_reduce},
    {O::vredxor, "vredxor", 0x03, kMV, C::vector_reduce},
    {O::vredminu, "vredminu", 0x04, kMV, C::vector_reduce},
    {O::vredmin, "vredmin", 0x05, kMV, C::vector_reduce},
    {O::vredmaxu, "vredmaxu", 0x06, kMV, C::vector_reduce},
    {O::vredmax, "vredmax", 0x07, kMV, C::vector_reduce},
    {O::vaaddu, "vaaddu", 0x08, kMV | kMX, C::vector_alu},
    {O::vaadd, "vaadd", 0x09, kMV | kMX, C::vector_alu},
    {O::vasubu, "vasubu", 0x0a, kMV | kMX, C::vector_alu},
    {O::vasub, "vasub", 0x0b, kMV | kMX, C::vector_alu},
    {O::vslide1up, "vslide1up", 0x0e, kMX, C::vector_permute},
    {O::vslide1down, "vslide1down", 0x0f, kMX, C::vector_permute},
    {O::vmv_x_s, "vmv.x.s", 0x10, kMV, C::vector_to_scalar, 1, 0},
    {O::vcpop, "vcpop.m", 0x10, kMV, C::vector_mask_to_scalar, -1, 0x10},
    {O::vfirst, "vfirst.m", 0x10, kMV, C::vector_mask_to_scalar, -1, 0x11},
    {O::vmv_s_x, "vmv.s.x", 0x10, kMX, C::vector_alu, 1, -1, 0},
    {O::vzext4, "vzext.vf4", 0x12, kMV, C::vector_extend, -1, 4},
    {O::vsext4, "vsext.vf4", 0x12, kMV, C::vector_extend, -1, 5},
    {O::vzext2, "vzext.vf2", 0x12, kMV, C::vector_extend, -1, 6},
    {O::vsext2, "vsext.vf2", 0x12, kMV, C::vector_extend, -1, 7},
    {O::vmsbf, "vmsbf.m", 0x14, kMV, C::vector_alu, -1, 1},
    {O::vmsof, "vmsof.m", 0x14, kMV, C::vector_alu, -1, 2},
    {O::vmsif, "vmsif.m", 0x14, kMV, C::vector_alu, -1, 3},
    {O::viota, "viota.m", 0x14, kMV, C::vector_reduce, -1, 0x10},
    {O::vid, "vid.v", 0x14, kMV, C::vector_alu, -1, 0x11, 0},
    {O::vcompress, "vcompress", 0x17, kMV, C::vector_permute, 1},
    {O::vmandn, "vmandn.m", 0x18, kMV, C::vector_alu, 1},
    {O::vmand, "vmand.m", 0x19, kMV, C::vector_alu, 1},
    {O::vmor, "vmor.m", 0x1a, kMV, C::vector_alu, 1},
    {O::vmxor, "vmxor.m", 0x1b, kMV, C::vector_alu, 1},
    {O::vmorn, "vmorn.m", 0x1c, kMV, C::vector_alu, 1},
    {O::vmnand, "vmnand.m", 0x1d, kMV, C::vector_alu, 1},
    {O::vmnor, "vmnor.m", 0x1e, kMV, C::vector_alu, 1},
    {O::vmxnor, "vmxnor.m", 0x1f, kMV, C::vector_alu, 1},
    {O::vdivu, "vdivu", 0x20, kMV | kMX, C::vector_divide},
    {O::vdiv, "vdiv", 0x21, kMV | kMX, C::vector_divide},
    {O::vremu, "vremu", 0x22, kMV | kMX, C::vector_divide},
    {O::vrem, "vrem", 0x23, kMV | kMX, C::vector_divide},
    {O::vmulhu, "vmulhu", 0x24, kMV | kMX, C::vector_multiply},
    {O::vmul, "vmul", 0x25, kMV | kMX, C::vector_multiply},
    {O::vmulhsu, "vmulhsu", 0x26, kMV | kMX, C::vector_multiply},
    {O::vmulh, "vmulh", 0x27, kMV | kMX, C::vector_multiply},
    {O::vmadd, "vmadd", 0x29, kMV | kMX, C::vector_multiply},
    {O::vnmsub, "vnmsub", 0x2b, kMV | kMX, C::vector_multiply},
    {O::vmacc, "vmacc", 0x2d, kMV | kMX, C::vector_multiply},
    {O::vnmsac, "vnmsac", 0x2f, kMV | kMX, C::vector_multiply},
    {O::vwaddu, "vwaddu", 0x30, kMV | kMX, C::vector_widen},
    {O::vwadd, "vwadd", 0x31, kMV | kMX, C::vector_widen},
    {O::vwsubu, "vwsubu", 0x32, kMV | kMX, C::vector_widen},
    {O::vwsub, "vwsub", 0x33, kMV | kMX, C::vector_widen},
    {O::vwaddu_w, "vwaddu.w", 0x34, kMV | kMX, C::vector_widen},
    {O::vwadd_w, "vwadd.w", 0x35, kMV | kMX, C::vector_widen},
    {O::vwsubu_w, "vwsubu.w", 0x36, kMV | kMX, C::vector_widen},
    {O::vwsub_w, "vwsub.w", 0x37, kMV | kMX, C::vector_widen},
    {O::vwmulu, "vwmulu", 0x38, kMV | kMX, C::vector_widen},
    {O::vwmulsu, "vwmulsu", 0x3a, kMV | kMX, C::vector_widen},
    {O::vwmul, "vwmul", 0x3b, kMV | kMX, C::vector_widen},
    {O::vwmaccu, "vwmaccu", 0x3c, kMV | kMX, C::vector_widen},
    {O::vwmacc, "vwmacc", 0x3d, kMV | kMX, C::vector_widen},
    {O::vwmaccus, "vwmaccus", 0x3e, kMX, C::vector_widen},
    {O::vwmaccsu, "vwmaccsu", 0x3f, kMV | kMX, C::vector_widen},

    {O::vfadd, "vfadd", 0x00, kFV | kFF, C::vector_float},
    {O::vfredusum, "vfredusum", 0x01, kFV, C::vector_reduce},
    {O::vfsub, "vfsub", 0x02, kFV | kFF, C::vector_float},
    {O::vfredosum, "vfredosum", 0x03, kFV, C::vector_reduce},
    {O::vfmin, "vfmin", 0x04, kFV | kFF, C::vector_float},
    {O::vfredmin, "vfredmin", 0x05, kFV, C::vector_reduce},
    {O::vfmax, "vfmax", 0x06, kFV | kFF, C::vector_float},
    {O::vfredmax, "vfredmax", 0x07, kFV, C::vector_reduce},
    {O::vfsgnj, "vfsgnj", 0x08, kFV | kFF, C::vector_float},
    {O::vfsgnjn, "vfsgnjn", 0x09, kFV | kFF, C::vector_float},
    {O::vfsgnjx, "vfsgnjx", 0x0a, kFV | kFF, C::vector_float},
    {O::vfslide1up, "vfslide1up", 0x0e, kFF, C::vector_permute},
    {O::vfslide1down, "vfslide1down", 0x0f, kFF, C::vector_permute},
    {O::vfmv_f_s, "vfmv.f.s", 0x10, kFV, C::vector_float, 1, 0},
    {O::vfmv_s_f, "vfmv.s.f", 0x10, kFF, C::vector_float, 1, -1, 0},
    {O::vfcvt_xu_f, "vfcvt.xu.f.v", 0x12, kFV, C::vector_float, -1, 0},
    {O::vfcvt_x_f, "vfcvt.x.f.v", 0x12, kFV, C::vector_float, -1, 1},
    {O::vfcvt_f_xu, "vfcvt.f.xu.v", 0x12, kFV, C::vector_float, -1, 2},
    {O::vfcvt_f_x, "vfcvt.f.x.v", 0x12, kFV, C::vector_float, -1, 3},
    {O::vfcvt_rtz_xu_f, "vfcvt.rtz.xu.f.v", 0x12, kFV, C::vector_float, -1, 6},
    {O::vfcvt_rtz_x_f, "vfcvt.rtz.x.f.v", 0x12, kFV, C::vector_float, -1, 7},
    {O::vfwcvt_f_xu, "vfwcvt.f.xu.v", 0x12, kFV, C::vector_float, -1, 0x0a},
    {O::vfwcvt_f_x, "vfwcvt.f.x.v", 0x12, kFV, C::vector_float, -1, 0x0b},
    {O::vfncvt_xu_f, "vfncvt.xu.f.w", 0x12, kFV, C::vector_float, -1, 0x10},
    {O::vfncvt_x_f, "vfncvt.x.f.w", 0x12, kFV, C::vector_float, -1, 0x11},
    {O::vfncvt_rtz_xu_f, "vfncvt.rtz.xu.f.w", 0x12, kFV, C::vector_float, -1, 0x16},
    {O::vfncvt_rtz_x_f, "vfncvt.rtz.x.f.w", 0x12, kFV, C::vector_float, -1, 0x17},
    {O::vfsqrt, "vfsqrt.v", 0x13, kFV, C::vector_float, -1, 0},
    {O::vfrsqrt7, "vfrsqrt7.v", 0x13, kFV, C::vector_float, -1, 4},
    {O::vfrec7, "vfrec7.v", 0x13, kFV, C::vector_float, -1, 5},
    {O::vfclass, "vfclass.v", 0x13, kFV, C::vector_float, -1, 0x10},
    {O::vfmerge, "vfmerge", 0x17, kFF, C::vector_float, 0},
    {O::vfmv_v, "vfmv.v", 0x17, kFF, C::vector_float, 1, -1, 0},
    {O::vmfeq, "vmfeq", 0x18, kFV | kFF, C::vector_compare},
    {O::vmfle, "vmfle", 0x19, kFV | kFF, C::vector_compare},
    {O::vmflt, "vmflt", 0x1b, kFV | kFF, C::vector_compare},
    {O::vmfne, "vmfne", 0x1c, kFV | kFF, C::vector_compare},
    {O::vmfgt, "vmfgt", 0x1d, kFF, C::vector_compare},
    {O::vmfge, "vmfge", 0x1f, kFF, C::vector_compare},
    {O::vfdiv, "vfdiv", 0x20, kFV | kFF, C::vector_float},
    {O::vfrdiv, "vfrdiv", 0x21, kFF, C::vector_float},
    {O::vfmul, "vfmul", 0x24, kFV | kFF, C::vector_float},
    {O::vfrsub, "vfrsub", 0x27, kFF, C::vector_float},
    {O::vfmadd, "vfmadd", 0x28, kFV | kFF, C::vector_float},
    {O::vfnmadd, "vfnmadd", 0x29, kFV | kFF, C::vector_float},
    {O::vfmsub, "vfmsub", 0x2a, kFV | kFF, C::vector_float},
    {O::vfnmsub, "vfnmsub", 0x2b, kFV | kFF, C::vector_float},
    {O::vfmacc, "vfmacc", 0x2c, kFV | kFF, C::vector_float},
    {O::vfnmacc, "vfnmacc", 0x2d, kFV | kFF, C::vector_float},
    {O::vfmsac, "vfmsac", 0x2e, kFV | kFF, C::vector_float},
    {O::vfnmsac, "vfnmsac", 0x2f, kFV | kFF, C::vector_float},
};

void add_vector(std::vector<Row>& t) {
  for (const VectorRow& v : kVectorRows)
    for (uint32_t kind = 0; kind < 7; ++kind) {
      if (!(v.kinds >> kind & 1)) continue;
      uint32_t mask = 0xfc00707f, match = 0x57 | kind << 12 | v.funct6 << 26;
      if (v.vm >= 0) mask |= 1u << 25, match |= static_cast<uint32_t>(v.vm) << 25;
      if (v.vs1 >= 0) mask |= 0x1fu << 15, match |= static_cast<uint32_t>(v.vs1) << 15;
      if (v.vs2 >= 0) mask |= 0x1fu << 20, match |= static_cast<uint32_t>(v.vs2) << 20;
      const bool is_float = kind == fvv || kind == fvf;
      t.push_back({v.operation, v.name, mask, match, F::vector, v.type, is_float ? E::vector_float : E::vector});
    }
  t.push_back({O::vsetvli, "vsetvli", 0x8000707f, 0x00007057, F::vsetvli, C::vset, E::vector});
  t.push_back({O::vsetivli, "vsetivli", 0xc000707f, 0xc0007057, F::vsetivli, C::vset, E::vector});
  t.push_back({O::vsetvl, "vsetvl", 0xfe00707f, 0x80007057, F::vsetvl, C::vset, E::vector});
  const uint32_t widths[] = {0, 5, 6};
  const char* loads[][3] = {{"vle8", "vle16", "vle32"},          {"vlse8", "vlse16", "vlse32"},
                            {"vluxei8", "vluxei16", "vluxei32"}, {"vloxei8", "vloxei16", "vloxei32"},
                            {"vle8ff", "vle16ff", "vle32ff"},    {"vl1re8", "vl1re16", "vl1re32"}};
  const char* stores[][3] = {{"vse8", "vse16", "vse32"},
                             {"vsse8", "vsse16", "vsse32"},
                             {"vsuxei8", "vsuxei16", "vsuxei32"},
                             {"vsoxei8", "vsoxei16", "vsoxei32"}};
  for (uint32_t w = 0; w < 3; ++w) {
    const uint32_t f = widths[w] << 12;
    // nf (31:29) is free: segments. mew (28) is 0.
    const auto row = [&](O operation, const char* name, bool store, uint32_t mop, int lumop) {
      uint32_t mask = 0x1c00707f, match = (store ? 0x27u : 0x07u) | f | mop << 26;
      if (lumop >= 0) mask |= 0x1f00000, match |= static_cast<uint32_t>(lumop) << 20;
      t.push_back(
          {operation, name, mask, match, F::vector_memory, store ? C::vector_store : C::vector_load, E::vector});
    };
    row(O::vload, loads[0][w], false, 0, 0);
    row(O::vload_first, loads[4][w], false, 0, 0x10);
    row(O::vload_indexed, loads[2][w], false, 1, -1);
    row(O::vload_strided, loads[1][w], false, 2, -1);
    row(O::vload_indexed, loads[3][w], false, 3, -1);
    row(O::vstore, stores[0][w], true, 0, 0);
    row(O::vstore_indexed, stores[2][w], true, 1, -1);
    row(O::vstore_strided, stores[1][w], true, 2, -1);
    row(O::vstore_indexed, stores[3][w], true, 3, -1);
    // Whole registers and masks are never masked (bit 25 is 1).
    for (uint32_t n : {1u, 2u, 4u, 8u}) {
      const uint32_t nf = (n - 1) << 29;
      t.push_back(
          {O::vload_whole, loads[5][w], 0xfff0707f, 0x02800007 | f | nf, F::vector_memory, C::vector_load, E::vector});
      if (w == 0)
        t.push_back(
            {O::vstore_whole, "vs1r", 0xfff0707f, 0x02800027 | nf, F::vector_memory, C::vector_store, E::vector});
    }
  }
  t.push_back({O::vload_mask, "vlm", 0xfff0707f, 0x02b00007, F::vector_memory, C::vector_load, E::vector});
  t.push_back({O::vstore_mask, "vsm", 0xfff0707f, 0x02b00027, F::vector_memory, C::vector_store, E::vector});
}

std::vector<Row> make_rows() {
  std::vector<Row> table;
  add_scalar(table);
  add_float(table);
  add_vector(table);
  return table;
}

// Rows by major opcode, so that decoding looks at few of them.
const std::array<std::vector<const Row*>, 128>& buckets() {
  static const auto made = [] {
    std::array<std::vector<const Row*>, 128> result;
    for (const Row& row : rows()) result[row.match & 0x7f].push_back(&row);
    return result;
  }();
  return made;
}

int32_t sign_extend(uint32_t value, int bits) { return static_cast<int32_t>(value << (32 - bits)) >> (32 - bits); }

int32_t immediate_of(Format format, uint32_t w) {
  switch (format) {
    case F::upper:
      return static_cast<int32_t>(w & 0xfffff000);
    case F::jump:
      return sign_extend((w >> 31) << 20 | (w >> 12 & 0xff) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 0x3ff) << 1, 21);
    case F::branch:
      return sign_extend((w >> 31) << 12 | (w >> 7 & 1) << 11 | (w >> 25 & 0x3f) << 5 | (w >> 8 & 0xf) << 1, 13);
    case F::store:
    case F::float_store:
      return sign_extend((w >> 25) << 5 | (w >> 7 & 0x1f), 12);
    case F::shift:
      return static_cast<int32_t>(w >> 20 & 0x1f);
    case F::csr:
    case F::csr_immediate:
      return static_cast<int32_t>(w >> 20);
    default:
      return sign_extend(w >> 20, 12);
  }
}

uint8_t access_bytes(O operation) {
  switch (operation) {
    case O::lb:
    case O::lbu:
    case O::sb:
      return 1;
    case O::lh:
    case O::lhu:
    case O::sh:
      return 2;
    case O::lw:
    case O::sw:
    case O::flw:
    case O::fsw:
      return 4;
    default:
      return 0;
  }
}

// Rounding modes 5 and 6 are reserved where an instruction rounds.
bool rounding_reserved(const Row& row, uint32_t word) {
  const bool rounds =
      row.format == F::float_r4 || (row.extension == E::f && (word & 0x7f) == 0x53 && !(row.mask & 0x7000));
  const uint32_t mode = word >> 12 & 7;
  return rounds && (mode == 5 || mode == 6);
}

}  // namespace

const char* class_name(Class type) {
  static const char* names[] = {"alu",
                                "branch",
                                "jump",
                                "multiply",
                                "divide",
                                "load",
                                "store",
                                "csr",
                                "fence",
                                "system",
                                "float",
                                "float_divide",
                                "float_to_integer",
                                "integer_to_float",
                                "float_load",
                                "float_store",
                                "vset",
                                "vector_alu",
                                "vector_multiply",
                                "vector_divide",
                                "vector_compare",
                                "vector_widen",
                                "vector_narrow",
                                "vector_extend",
                                "vector_reduce",
                                "vector_permute",
                                "vector_to_scalar",
                                "vector_mask_to_scalar",
                                "vector_float",
                                "vector_load",
                                "vector_store"};
  static_assert(sizeof(names) / sizeof(*names) == static_cast<size_t>(Class::count));
  return names[static_cast<size_t>(type)];
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = make_rows();
  return table;
}

const Row* find_row(uint32_t word) {
  for (const Row* row : buckets()[word & 0x7f])
    if ((word & row->mask) == row->match) return rounding_reserved(*row, word) ? nullptr : row;
  return nullptr;
}

bool writes_integer(Class type) {
  switch (type) {
    case C::alu:
    case C::jump:
    case C::multiply:
    case C::divide:
    case C::load:
    case C::csr:
    case C::float_to_integer:
    case C::vset:
    case C::vector_to_scalar:
    case C::vector_mask_to_scalar:
      return true;
    default:
      return false;
  }
}

Decoded decode(uint32_t word, const Features& features) {
  Decoded made;
  made.word = word;
  const Row* row = find_row(word);
  if (!row || !features.allows(row->extension)) return made;
  made.operation = row->operation;
  made.type = row->type;
  made.rd = word >> 7 & 0x1f;
  made.rs1 = word >> 15 & 0x1f;
  made.rs2 = word >> 20 & 0x1f;
  made.rs3 = word >> 27;
  made.immediate = immediate_of(row->format, word);
  made.bytes = access_bytes(row->operation);
  if (writes_integer(made.type) && made.rd == 0) made.rd = 32;
  return made;
}

}  // namespace tilewright::coral
