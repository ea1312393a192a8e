"""What commands print: one place for formats, tables, colours, sorting and watching; and how printing is interrupted."""
