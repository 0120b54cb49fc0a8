/* ops_table.h: OP(name) for every operator; struct op_kind op_NAME is in its file. */
OP(center_crop)
OP(random_horizontal_flip)
OP(random_resized_crop)
OP(random_vertical_flip)
OP(resize)
